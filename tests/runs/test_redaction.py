"""What a record keeps holds no secret, and keeps what is none."""

from __future__ import annotations

import time

import pytest

from trueup.runs.redaction import is_secret_name, redacted, redacted_command, redacted_text, redacted_variables

TOKEN = "hf_" + "aB3" * 10
HEXADECIMAL = "0123456789abcdef" * 2 + "01234567"
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
    "NCCL_AUTH_TOKENX",
    "wandb_key",
    "http.auth",
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("""--cfg '{"wandb_key": "jjjQ"}'""", """--cfg '{"wandb_key": "***"}'"""),
        ("WANDB_KEY:yyyQ", "WANDB_KEY:***"),
        ("ValueError: {'api_key': 'supersecretQ', 'n': 1}", "ValueError: {'api_key': '***', 'n': 1}"),
        (r'"{\"api_key\": \"abc\", \"n\": 1}"', r'"{\"api_key\": \"***\", \"n\": 1}"'),
        (r'{"password": "a\"b c", "n": 1}', '{"password": "***", "n": 1}'),
        ("{api_key: abc}", "{api_key: ***}"),
        ("Config(token='abc', api_key='x', lr=1)", "Config(token='***', api_key='***', lr=1)"),
        ("trainer.wandb.api_key=oooQ", "trainer.wandb.api_key=***"),
        ("password: hunter3yy", "password: ***"),
        ("aws_secret_access_key = wJalrXUtnFEMI", "aws_secret_access_key = ***"),
        ("AWS_SECRET_ACCESS_KEY wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY ***"),
        ("api_key='cut off in", "api_key='***"),
        ("train --password 'a b' --n 1", "train --password *** --n 1"),
        (f"wandb: {HEXADECIMAL}", "wandb: ***"),
        (f"wandb login --relogin {HEXADECIMAL}", "wandb login --relogin ***"),
        (f"Your API key is {HEXADECIMAL}.", "Your API key is ***."),
        ("replicate r8_" + "aB3" * 10, "replicate ***"),
    ],
)
def test_secrets_in_the_forms_that_programs_print(text: str, shown: str) -> None:
    assert redacted_text(text, home="/home/me") == shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=128",
        "tokens: 4096",
        "token: 5",
        "pad_token_id=0",
        "pad_token: '</s>'",
        "{'id': 5, 'token': 'hello'}",
        "key_padding_mask: torch.float32",
        "num_key_value_heads=8",
        "missing keys: ['layers.0.weight']",
        "missing_keys=['layers.0.weight']",
        'Missing key(s) in state_dict: "layers.10.weight"',
        "Unexpected key: model.layers.10.weight",
        "key=model.layers.10.weight",
        "key = self.k_proj(x1)",
        "KeyError: 'token'",
        "KeyError: 'api_key'",
        "cache_key=fx1234abcd5678",
        "DispatchKey: CUDA",
        "tokenizer: Llama3Tokenizer",
        "def f(password: str, token: Optional[str] = None, api_key=None)",
        "login(token=args.token, api_key=api_key)",
        "api_key=os.environ['WANDB_API_KEY']",
        "use_auth_token=True",
        "HF_TOKEN is not set, pass --token or log in",
        "The WANDB_API_KEY environment variable is missing",
        f"wandb: git commit {HEXADECIMAL}",
        f"revision {HEXADECIMAL}",
        "Token indices sequence length is longer than 2048",
        "RuntimeError: Expected key.size(1) == value.size(1) but key: [2, 3]",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    assert redacted_text(text, home="/home/me") == text


@pytest.mark.parametrize("piece", ["a.", "-", '"', "wandb ", "KEY_", "a=", "='", "password=)", r"password='x" + "\\"])
def test_long_texts_take_time_in_proportion(piece: str) -> None:
    begun = time.perf_counter()
    redacted_text(piece * 20_000, home="/home/me")
    assert time.perf_counter() - begun < 2


def test_words_of_a_command_that_belong_together() -> None:
    command = ["bash", "login", HEXADECIMAL, "aws_secret_access_key", "wJalrXUtnFEMI7", "-k", "x", "HF_TOKEN", "set"]
    shown = ("bash", "login", "***", "aws_secret_access_key", "***", "-k", "x", "HF_TOKEN", "set")
    assert redacted_command(command, home="/home/me") == shown


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
