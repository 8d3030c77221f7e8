"""What a record keeps holds no secret, and keeps what is none."""

from __future__ import annotations

import pytest

from trueup.runs.redaction import is_secret_name, redacted, redacted_command, redacted_text, redacted_variables

TOKEN = "hf_" + "aB3" * 10
SECRET = [
    "HF_TOKEN",
    "--token",
    "WANDB_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_ACCESS_KEY_ID",
    "db_password",
    "--api-key",
    "PERSONAL_ACCESS_TOKEN",
    "AZURE_ACCOUNT_KEY",
    "apiKey",
    "GITHUB_PAT",
    "SENTRY_DSN",
    "MY_SUPER_SECRET",
    "key",
]
OPEN = [
    "max_tokens",
    "pad_token",
    "pad_token_id",
    "token_id",
    "tokenizer",
    "--num-tokens",
    "text_key",
    "PWD",
    "monkey",
    "TOKENIZERS_PARALLELISM",
    "keyboard",
    "sort_key",
    "--max-new-tokens",
    "state_dict_key",
    "HF_TOKEN_PATH",
]


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", OPEN)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"login with {TOKEN}!", "login with ***!"),
        ("postgres://me:pw@host:5432/db", "postgres://***@host:5432/db"),
        ("https://h/x?token=abc&n=1", "https://h/x?token=***&n=1"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer ***"),
        ("WANDB_API_KEY=123 python train.py --lr=1e-4", "WANDB_API_KEY=*** python train.py --lr=1e-4"),
        ("train --hub-token abc --pad-token '<s>'", "train --hub-token *** --pad-token '<s>'"),
        ("/home/me/run.py and /home/me2/run.py", "~/run.py and /home/me2/run.py"),
        ("File '/home/me'", "File '~'"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    assert redacted_text(text, home="/home/me") == shown


def test_command_lines() -> None:
    command = ["torchrun", "/home/me/train.py", "--api-key", "abc", "--epochs", "3", "--token=xyz", "--offline"]
    shown = ("torchrun", "~/train.py", "--api-key", "***", "--epochs", "3", "--token=***", "--offline")
    assert redacted_command(command, home="/home/me") == shown


def test_variables_and_nested_values() -> None:
    assert redacted_variables({"HF_TOKEN": "x", "NCCL_DEBUG": "INFO"}) == {"HF_TOKEN": "***", "NCCL_DEBUG": "INFO"}
    assert redacted({"hub": {"token": "x", "n": 3}, "list": [TOKEN, 1]}) == {
        "hub": {"token": "***", "n": 3},
        "list": ["***", 1],
    }
