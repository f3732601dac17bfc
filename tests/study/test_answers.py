"""The file of answers: many writers at once, a server killed with -9, a study that was changed since."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path

import pytest

from mast.job import InputError
from mast.study.answers import AnswerStore, open_answers
from mast.study.order import shown_order
from tests.study.served import Client, Served
from tests.study.small_study import METHODS, small_study

RATERS = 10


def test_killed_while_ten_people_rate_no_confirmed_answer_is_lost(tmp_path: Path):
    """Twice: everybody rates as fast as they can, the server is killed, started again, and all that it had
    confirmed is there.
    """
    study = small_study(tmp_path / "s", METHODS, (2, 3))
    store = AnswerStore(study)
    tokens = [token for _, token in store.invite([""] * RATERS)]
    store.close()
    confirmed: dict[str, dict[tuple[str, str], int]] = {token: {} for token in tokens}
    unsure: dict[str, set[tuple[str, str]]] = {token: set() for token in tokens}

    def person(port: int, token: str, ready: threading.Barrier) -> None:
        client = Client(port, token)
        items = client.ask("/api/consent", {}).json["items"][1:]
        rng = random.Random(token)
        ready.wait()
        while True:
            question = rng.choice(items)["id"], rng.choice(study.criteria).name
            value = rng.randint(1, 7)
            unsure[token].add(question)  # until it is confirmed, it may be kept or not
            try:
                reply = client.rate(*question, value)
            except (OSError, HTTPException):  # killed before or amid its answer
                return
            assert reply.status == 200
            confirmed[token][question] = value
            unsure[token].discard(question)

    for _ in range(2):
        server = Served(study.folder, "--port", "0")
        ready = threading.Barrier(RATERS + 1)
        people = [threading.Thread(target=person, args=(server.port, token, ready)) for token in tokens]
        for one in people:
            one.start()
        before = sum(map(len, confirmed.values()))
        ready.wait()
        while sum(map(len, confirmed.values())) < before + 100 and any(one.is_alive() for one in people):
            threading.Event().wait(0.02)
        server.kill()
        for one in people:
            one.join()
        store = AnswerStore(study)
        for token in tokens:
            who = store.participant(token)
            assert who is not None
            kept = store.answers(who.code)
            for (picture, criterion), value in confirmed[token].items():
                if (picture, criterion) not in unsure[token]:
                    assert kept[picture][criterion] == value
        store.close()
        assert sum(map(len, confirmed.values())) >= before + 100
        for token in tokens:  # what a cut connection left open is open
            for question in unsure[token]:
                confirmed[token].pop(question, None)
            unsure[token].clear()


def test_numbers_are_given_in_the_order_of_consent_and_once(tmp_path: Path):
    study = small_study(tmp_path / "s")
    stores = [AnswerStore(study) for _ in range(3)]  # as three processes would
    made = stores[0].invite([f"person {i}" for i in range(9)])
    assert len({code for code, _ in made}) == len({token for _, token in made}) == 9
    threads = [
        threading.Thread(target=stores[i % 3].consent, args=(code,)) for i, (code, _) in enumerate(made * 2)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    numbers = [stores[1].participant(token).number for _, token in made]  # type: ignore[union-attr]
    assert sorted(numbers) == list(range(9))  # type: ignore[type-var]
    for store in stores:
        store.close()


def test_tokens_are_not_in_the_file(tmp_path: Path):
    study = small_study(tmp_path / "s")
    store = AnswerStore(study)
    ((_, token),) = store.invite(["x"])
    store.close()
    assert all(token.encode() not in path.read_bytes() for path in study.folder.glob("answers.sqlite*"))


def test_answers_belong_to_the_pictures_people_saw(tmp_path: Path):
    study = small_study(tmp_path / "s")
    AnswerStore(study).close()
    with pytest.raises(InputError, match="other pictures, criteria or points"):
        AnswerStore(replace(study, criteria=study.criteria[:5]))
    with pytest.raises(InputError, match="other pictures, criteria or points"):
        AnswerStore(replace(study, scale={"points": 5, "low": "", "high": ""}))
    AnswerStore(replace(study, title="Another title")).close()


def test_a_damaged_file_and_none_are_refused(tmp_path: Path):
    study = small_study(tmp_path / "s")
    with pytest.raises(InputError, match="nobody has been invited yet"):
        open_answers(study)
    study.answers_path.write_bytes(b"this is no database" * 100)
    with pytest.raises(InputError, match=r"answers\.sqlite: cannot be used"):
        AnswerStore(study)


def test_the_export_is_by_person_and_in_the_order_shown(tmp_path: Path):
    study = small_study(tmp_path / "s", METHODS[:2], (2, 3))
    store = AnswerStore(study)
    codes = [code for code, _ in store.invite(["", ""])]
    for code in reversed(codes):
        store.consent(code)
        for picture in (output.id for _, output in reversed(shown_order(study, 0))):
            for one in reversed(study.criteria):
                store.save(code, picture, one.name, 4, 9.0)
    rows = store.rows()
    assert [row["participant"] for row in rows[:: 4 * 6]] == codes[::-1]
    assert [row["place"] for row in rows[:24:6]] == [1, 2, 3, 4]
    assert [row["criterion"] for row in rows[:6]] == [one.name for one in study.criteria]
    with pytest.raises(InputError, match="no participant has this code"):
        store.withdraw("ZZZZZ")
    store.close()
