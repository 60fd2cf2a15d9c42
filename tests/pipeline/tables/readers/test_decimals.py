"""Decimal text to doubles: of up to 19 digits the one that `float()` gives, bit for bit."""

import math
import re

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fewpass.pipeline.tables.readers.decimals import INFINITE, JUNK, NAN, OK, decimal
from fewpass.solvers.kernels.dispatch import kernel

compiled = kernel(decimal)

DIGITS = st.text("0123456789", min_size=1, max_size=40)
EXPONENT = st.integers(-400, 400)
#: Numbers that lie halfway between two doubles, or at the ends of the range.
EDGES = [
    "9007199254740993",
    "9007199254740993.00000000000000000001",
    "1.00000000000000011102230246251565404",
    "2.2250738585072014e-308",
    "2.2250738585072011e-308",
    "4.9e-324",
    "2.4703282292062327e-324",
    "2.4703282292062328e-324",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "1.7976931348623159e308",
    "0e999999999999999999999",
    "1e99999999999999999999",
    "-0",
    "0." + "0" * 350 + "123e345",
    "1" + "0" * 330 + "e-330",
]


def read(text):
    """Status, value and how many bytes were taken."""
    status, value, behind = compiled(np.frombuffer(text.encode() + b"\n", np.uint8), np.uint64(0))
    return status, value, int(behind)


def cut(text):
    """The number with zeros for all digits behind the 19th."""
    digits = re.match(r"[-+]?[\d.]*", text)[0]
    n, out = 0, ""
    for c in digits:
        n += c.isdigit() and (n > 0 or c != "0")
        out += "0" if c.isdigit() and n > 19 else c
    return out + text[len(digits) :]


def check(text, behind=None):
    status, value, taken = read(text)
    assert taken == (len(text) if behind is None else behind), text
    expected = float(cut(text[:taken]))
    assert status == (INFINITE if math.isinf(expected) else OK), text
    assert (value, math.copysign(1, value)) == (expected, math.copysign(1, expected)), text


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
@settings(max_examples=2000)
def test_every_double_comes_back(x):
    check(repr(x))
    check(f"{x:.25e}")


@given(st.sampled_from(["", "-", "+"]), DIGITS, DIGITS, EXPONENT)
@settings(max_examples=3000)
def test_any_digits_with_any_exponent(sign, whole, fraction, exponent):
    check(f"{sign}{whole}.{fraction}e{exponent}")
    check(f"{sign}{whole}.{fraction}")
    check(f"{sign}.{fraction}E+{abs(exponent)}")
    check(f"{sign}{whole}.")


@given(st.integers(2**52, 2**53 - 1), st.integers(0, 63))
@settings(max_examples=1000)
def test_halfway_cases_round_to_even(mantissa, shift):
    check(str((2 * mantissa + 1) << shift))
    check(f"{(2 * mantissa + 1) / 2:.1f}")


def test_ends_of_the_range():
    for text in EDGES:
        check(text)


def test_digits_behind_the_19th_are_worth_a_unit_in_the_last_place_at_most():
    rng = np.random.default_rng(5)
    texts = [f"0.{rng.integers(10**17, 10**18)}{rng.integers(10**9, 10**10)}" for _ in range(5000)]
    values, exact = np.array([read(text)[1] for text in texts]), np.array([*map(float, texts)])
    assert 0 < (values != exact).sum() < 50
    assert (np.abs(values - exact) <= np.spacing(exact)).all()


def test_what_is_no_number():
    for text in ["", "-", "+", ".", "-.", "e5", "abc", "--1", "ina", "na"]:
        assert read(text)[0] == JUNK, text
    for text in ["nan", "NaN", "-nan"]:
        assert read(text)[0] == NAN, text
    for text in ["inf", "-Inf", "infinity", "+INFINITY"]:
        assert read(text)[:2] == (INFINITE, float(text)), text
    assert read("1e")[2] == read("1e+")[2] == 1  # as much as is a number


@given(DIGITS, DIGITS, st.integers(-330, 310))
@example("1", "5", 0)
@settings(max_examples=60)
def test_compiled_is_what_it_says(whole, fraction, exponent):
    text = np.frombuffer(f"-{whole}.{fraction}e{exponent}\n".encode(), np.uint8)
    with np.errstate(over="ignore"):  # uint64 wraps, as in compiled code
        plain = decimal(text, np.uint64(0))
    assert plain == compiled(text, np.uint64(0))
