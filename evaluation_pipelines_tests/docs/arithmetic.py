"""Works out the sums in a document, so that no step of them is taken on trust."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}


def worked_out(expression: str, values: Mapping[str, Any]) -> float:
    """The value of a sum of numbers and names.

    Raises:
        ValueError: it is no such sum; names that are not in ``values`` are not either.
    """
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is no sum") from error
    return _value(tree, values)


def _value(node: ast.AST, values: Mapping[str, Any]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if isinstance(values.get(name), int | float):
            return float(values[name])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand, values))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, values) for argument in arguments))
    raise ValueError(f"{ast.unparse(node)!r} is no number, known name or sum")
