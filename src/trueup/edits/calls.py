"""Calls as values: keywords added, replaced and removed, with the layout that the call has."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def argument(call: cst.Call, keyword: str) -> cst.BaseExpression | None:
    """What a call gives for `keyword`; None when it does not name it."""
    return next((arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == keyword), None)


def is_open(call: cst.Call) -> bool:
    """Whether the call takes arguments that do not stand in it: `*names`, `**options`."""
    return any(arg.star for arg in call.args)


def takes_options(call: cst.Call) -> bool:
    """Whether the call takes keywords that do not stand in it: `**options`."""
    return any(arg.star == "**" for arg in call.args)


def with_keyword(call: cst.Call, keyword: str, value: str) -> cst.Call:
    """`call` with `keyword=value`, replaced where it is and added behind the last argument where it is not."""
    expression = cst.parse_expression(value)
    arguments = list(call.args)
    for index, arg in enumerate(arguments):
        if arg.keyword is not None and arg.keyword.value == keyword:
            arguments[index] = arg.with_changes(value=expression)
            return call.with_changes(args=arguments)
    new = cst.Arg(value=expression, keyword=cst.Name(keyword), equal=EQUAL)
    if not arguments:
        return call.with_changes(args=[new])
    last = arguments[-1]
    separator = _separator(call, arguments)
    if isinstance(last.comma, cst.Comma):  # the closing bracket stands on a line of its own
        space = last.comma.whitespace_after
        comma = cst.Comma(whitespace_after=_joined(space, separator))
        new = new.with_changes(comma=cst.Comma(whitespace_after=_without_comment(space)))
    else:
        comma = cst.Comma(whitespace_after=separator)
        new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
        last = last.with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*arguments[:-1], last.with_changes(comma=comma), new])


def without_keyword(call: cst.Call, keyword: str) -> cst.Call:
    """`call` without `keyword`; as it is when it does not name it."""
    arguments = list(call.args)
    index = next((i for i, arg in enumerate(arguments) if arg.keyword and arg.keyword.value == keyword), None)
    if index is None:
        return call
    gone = arguments.pop(index)
    if index and index == len(arguments):  # what stood behind the last argument stands behind the one before it
        arguments[-1] = arguments[-1].with_changes(comma=gone.comma, whitespace_after_arg=gone.whitespace_after_arg)
    return call.with_changes(args=arguments)


def without_arguments(call: cst.Call, positions: Sequence[int]) -> cst.Call:
    """`call` without the arguments at these positions, the last of which may be the last of the call."""
    arguments = [arg for index, arg in enumerate(call.args) if index not in positions]
    if arguments and len(call.args) - 1 in positions:
        arguments[-1] = arguments[-1].with_changes(comma=call.args[-1].comma)
    return call.with_changes(args=arguments)


def _separator(call: cst.Call, arguments: Sequence[cst.Arg]) -> cst.BaseParenthesizableWhitespace:
    """The white space between two arguments of this call, without comments."""
    if len(arguments) > 1 and isinstance(arguments[-2].comma, cst.Comma):
        return _without_comment(arguments[-2].comma.whitespace_after)
    if isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
        return _without_comment(call.whitespace_before_args)
    return cst.SimpleWhitespace(" ")


def _without_comment(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])


def _joined(
    space: cst.BaseParenthesizableWhitespace, separator: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """`separator` with the comments of `space`, which stay with the argument before it."""
    if not isinstance(space, cst.ParenthesizedWhitespace) or not isinstance(separator, cst.ParenthesizedWhitespace):
        return separator
    return separator.with_changes(first_line=space.first_line, empty_lines=space.empty_lines)
