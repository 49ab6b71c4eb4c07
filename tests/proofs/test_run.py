"""The table, the shares, progress that survives an interruption, pages, and what a failure prints."""

import datetime
from pathlib import Path

import pytest

from tests.oracle.toolbox import ToolMissing
from tests.proofs import proof as proof_module
from tests.proofs import result, run
from tests.proofs.proof import Facts, Proof, Slice, merge_facts
from tests.proofs.standing import Standing, load_standing, save_standing

HOST = {"host": "a host"}


class Counting:
    """A proof of nothing, whose units are counted; one of them can be made to fail."""

    def __init__(
        self,
        *,
        slice_units: int | None = 4,
        fails_at: int | None = None,
        interrupted_at: int | None = None,
        alone: bool = False,
    ) -> None:
        self.slices: list[range] = []
        self.fails_at = fails_at
        self.interrupted_at = interrupted_at
        self.proof = Proof(
            name="counting",
            promise="It counts.",
            unit="numbers",
            total=10,
            ci=3,
            slice_units=slice_units,
            run=self.run,
            alone=alone,
        )

    def run(self, work: Slice) -> Facts:
        self.slices.append(work.units)
        for unit in work.each():
            if unit == self.interrupted_at:
                raise KeyboardInterrupt
            assert unit != self.fails_at, f"{unit} does not count"
        return {"counted": len(work.units), "highest_max": work.units[-1]}


@pytest.fixture
def proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Progress and pages go into a directory of the test's own."""
    monkeypatch.setattr(run, "DIRECTORY", tmp_path / "cache")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(result, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(run, "commit", lambda: "abc")
    monkeypatch.setattr(run, "is_dirty", lambda: False)
    return tmp_path


def call(counting: Counting, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(run, "PROOFS", (counting.proof,))
    return run.main(["--only", "counting", *arguments])


def test_every_proof_has_a_name_of_its_own_and_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert len({proof.name for proof in run.PROOFS}) == len(run.PROOFS)
    assert run.main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(proof.name in printed for proof in run.PROOFS)


@pytest.mark.parametrize("proof", run.PROOFS, ids=lambda proof: proof.name)
def test_over_the_days_every_unit_has_its_turn_in_ci(proof: Proof) -> None:
    if proof.slice_units is None:
        return
    first = datetime.date(2026, 1, 1)
    days = -(-proof.total // proof.ci)
    seen: set[int] = set()
    for day in range(days):
        units = proof.units_of_day(first + datetime.timedelta(days=day))
        assert len(units) == proof.ci
        seen.update(units)
    assert seen == set(range(proof.total))


def test_slices_are_cut_at_the_same_units_wherever_one_begins() -> None:
    proof = Counting().proof
    assert list(proof.slices(range(10))) == [range(4), range(4, 8), range(8, 10)]
    assert list(proof.slices(range(3, 6))) == [range(3, 4), range(4, 6)]
    assert list(Counting(slice_units=None).proof.slices(range(10))) == [range(10)]


def test_counts_add_up_and_bounds_stay_bounds() -> None:
    merged = merge_facts({"kills": 2, "wait_s_max": 3.0, "share_min": 0.5}, {"kills": 3, "wait_s_max": 1.0, "new": 1})
    assert merged == {"kills": 5, "wait_s_max": 3.0, "share_min": 0.5, "new": 1}
    assert merge_facts({"share_min": 0.5}, {"share_min": 0.25}) == {"share_min": 0.25}


def test_progress_belongs_to_its_commit(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "counting.json"
    standing = Standing("abc")
    standing.add(4, {"counted": 4}, seconds=1.5, is_dirty=True)
    save_standing(path, standing)
    assert load_standing(path, commit="abc") == standing
    assert load_standing(path, commit="def") == Standing("def")
    assert load_standing(path, commit="def", keep=True) == standing
    path.write_text("{torn")
    assert load_standing(path, commit="abc") == Standing("abc")


@pytest.mark.parametrize(("end", "status"), [("fails_at", 1), ("interrupted_at", 130)])
def test_a_proof_goes_on_where_it_ended(proofs: Path, monkeypatch: pytest.MonkeyPatch, end: str, status: int) -> None:
    ending = Counting(fails_at=6) if end == "fails_at" else Counting(interrupted_at=6)
    assert call(ending, monkeypatch) == status
    # A failure leaves what it worked on; an interruption has nothing to show.
    assert len(list(proofs.glob("cache/work/*"))) == (1 if end == "fails_at" else 0)
    mended = Counting()
    assert call(mended, monkeypatch) == 0
    assert mended.slices == [range(4, 8), range(8, 10)]
    (page,) = (proofs / "pages").iterdir()
    assert page.name.endswith("-counting.md")
    assert "| counted | 10 |" in page.read_text()
    assert "| highest max | 9 |" in page.read_text()

    again = Counting()
    assert call(again, monkeypatch) == 0
    assert again.slices == []
    assert call(again, monkeypatch, "--fresh") == 0
    assert again.slices == [range(4), range(4, 8), range(8, 10)]
    (second,) = set((proofs / "pages").iterdir()) - {page}
    assert second.name == page.name.replace("-counting", "-counting-2")


def test_another_commit_starts_afresh(proofs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call(Counting(fails_at=6), monkeypatch)
    monkeypatch.setattr(run, "commit", lambda: "def")
    mended = Counting()
    assert call(mended, monkeypatch) == 0
    assert mended.slices[0] == range(4)


@pytest.mark.parametrize(("alone", "units"), [(False, "5-6"), (True, "6")])
def test_a_failure_says_which_unit_and_how_to_run_it_again(
    proofs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], alone: bool, units: str
) -> None:
    assert call(Counting(fails_at=6, alone=alone), monkeypatch, "--units", "5-9") == 1
    printed = capsys.readouterr().out
    assert "counting FAILED at 6" in printed
    assert "6 does not count" in printed
    assert f"python -m tests.proofs.run --only counting --units {units}\n" in printed
    assert not (proofs / "pages").exists()


def test_a_share_leaves_no_page_and_no_progress(proofs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting()
    assert call(counting, monkeypatch, "--ci") == 0
    assert sum(map(len, counting.slices)) == 3
    assert not (proofs / "pages").exists()
    assert not list(proofs.glob("cache/*.json"))
    assert not list(proofs.glob("cache/work/*"))


@pytest.mark.parametrize(
    ("required", "arguments", "status"), [(False, ["--ci"], 0), (True, ["--ci"], 1), (False, [], 1)]
)
def test_a_missing_tool_is_never_silent(
    proofs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    required: bool,
    arguments: list[str],
    status: int,
) -> None:
    def no_tool() -> None:
        raise ToolMissing("anvil is not installed")

    counting = Counting()
    lacking = Proof(name="counting", promise="", unit="numbers", total=1, ci=1, run=counting.run, check_tools=no_tool)
    monkeypatch.setattr(run, "PROOFS", (lacking,))
    monkeypatch.setattr(run, "REQUIRE_ALL", required)
    assert run.main(["--only", "counting", *arguments]) == status
    assert "left out, because anvil is not installed" in capsys.readouterr().out
    assert counting.slices == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "nothing"],
        ["--only", "kill", "--units", "5-4"],
        ["--only", "kill", "--units", "199-200"],
        ["--only", "kill", "--units", "some"],
        ["--units", "1"],
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        run.parse_arguments(arguments)


@pytest.mark.parametrize("required", [False, True])
def test_a_part_that_lacks_its_tool_is_told_on_the_page_or_fails(
    proofs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], required: bool
) -> None:
    def no_tool() -> None:
        raise ToolMissing("anvil is not installed")

    def look(work: Slice) -> Facts:
        return {"compared": int(work.has(no_tool, or_lacks="the smith's figures"))}

    lacking = Proof(name="counting", promise="", unit="numbers", total=2, ci=1, slice_units=1, run=look)
    monkeypatch.setattr(run, "PROOFS", (lacking,))
    monkeypatch.setattr(proof_module, "REQUIRE_ALL", required)
    assert run.main(["--only", "counting"]) == int(required)
    assert "anvil is not installed" in capsys.readouterr().out
    pages = [page.read_text() for page in proofs.glob("pages/*")]
    assert len(pages) == int(not required)
    told = "It held, as far as it was looked at: this lacks the smith's figures, because anvil is not installed.\n"
    assert all(told in page for page in pages)


def test_what_is_there_is_not_lacking(tmp_path: Path) -> None:
    work = Slice(range(1), is_full=True, scratch=tmp_path)
    assert work.has(lambda: "/usr/bin/anvil", or_lacks="the smith's figures")
    assert work.lacking == []


def test_a_page_owns_up_to_changes_that_are_in_no_commit() -> None:
    standing = Standing("abc", is_dirty=True, units_done=10, seconds=3725, facts={"wait_s_max": 0.25, "bytes": 12345})
    text = result.page(Counting().proof, standing, day=datetime.date(2026, 1, 2), host=HOST)
    assert "# counting, 2026-01-02" in text
    assert "| commit | `abc`, with changes that are not in it |" in text
    assert "| took | 1 h 02 min |" in text
    assert "| wait s max | 0.250 |" in text
    assert "| bytes | 12,345 |" in text
    assert "python -m tests.proofs.run --only counting --units 0-3" in text
