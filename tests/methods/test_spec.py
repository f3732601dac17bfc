"""A method and its options as text: one grammar, strict about what an option is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mast import InputError
from mast.methods import METHODS
from mast.methods.spec import MethodSpec, parse_method, parse_tau, write_tau

NUMBERS = st.floats(-100, 100).map(lambda x: round(x, 4))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mast", MethodSpec("mast", "mast", {})),
        ("mast:lam=0.1,ddi=off", MethodSpec("mast-lam0.1-no-ddi", "mast", {"lam": 0.1, "ddi": False})),
        ("soft=mast:tau=1.25", MethodSpec("soft", "mast", {"tau": 1.25})),
        ("t=mast:tau=.11/.65/1", MethodSpec("t", "mast", {"tau": (0.11, 0.65, 1.0)})),
        ("t=mast:tau=.11,.65,1,lam=0.3", MethodSpec("t", "mast", {"tau": (0.11, 0.65, 1.0), "lam": 0.3})),
        ("s=stylegallery:steps=3,auto=on", MethodSpec("s", "stylegallery", {"steps": 3, "auto": True})),
        ("a=adain:weights=some/folder", MethodSpec("a", "adain", {"weights": "some/folder"})),
    ],
)
def test_what_a_text_means(text, expected):
    assert parse_method(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "mast:tau=yes",
        "mast:tau=1/2",
        "mast:tau=1e300/1e300/1e300",
        "mast:tau=nan",
        "mast:lam=0.1/0.2",
        "mast:lam=yes",
        "mast:lam=inf",
        "mast:name=x",
        "mast:_networks=x",
        "adain:_networks=x",
        "mast:lama=2",
        "mast:lam",
        "mast:=1",
        "mast:lam=1,0.2",
        "zstar:first=1.5",
        "nobody",
        "",
    ],
)
def test_what_is_no_option_is_refused(text):
    with pytest.raises(InputError):
        parse_method(text)


@given(st.one_of(NUMBERS, st.tuples(NUMBERS, NUMBERS, NUMBERS)))
def test_tau_is_read_as_it_is_written(tau):
    assert parse_tau(write_tau(tau)) == tau
    assert parse_tau(write_tau(tau).replace("/", ",")) == tau


@given(st.sampled_from(sorted(METHODS)), st.text(max_size=20))
def test_any_text_gives_a_method_or_words(method, rest):
    try:
        spec = parse_method(f"{method}:{rest}")
    except InputError:
        return
    assert spec.method == method
