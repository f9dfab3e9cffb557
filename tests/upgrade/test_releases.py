"""The files RELEASES and sql/migrations/RELEASED: what was released stays as it was."""

import hashlib
import os
import re
import subprocess

import pytest

import releases

STEPS = os.path.join(releases.TOP, "sql", "migrations")


def released_steps(text):
    """Name and sum of each released migration."""
    return dict(reversed(line.split()) for line in text.splitlines() if not line.startswith("#"))


def changed_steps(folder):
    """A message for each released migration that is not what was released."""
    with open(os.path.join(folder, "RELEASED")) as f:
        steps = released_steps(f.read())
    return [
        f"sql/migrations/{name}: was released and has changed (a database applies it once); "
        "hint: restore it, and add a migration"
        for name, checksum in steps.items()
        if not os.path.exists(os.path.join(folder, name))
        or hashlib.sha256(open(os.path.join(folder, name), "rb").read()).hexdigest() != checksum
    ]


def test_a_released_migration_is_what_was_released():
    assert changed_steps(STEPS) == []


def test_an_edited_or_missing_released_migration_is_named(tmp_path):
    for name in "0001_tables.sql", "0002_more.sql", "0003_new.sql":
        (tmp_path / name).write_text("select 1;\n")
    summed = subprocess.run(
        ["sha256sum", "0001_tables.sql", "0002_more.sql"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (tmp_path / "RELEASED").write_text("# Sums.\n" + summed.stdout)
    assert changed_steps(tmp_path) == []
    (tmp_path / "0001_tables.sql").write_text("select 2;\n")
    (tmp_path / "0002_more.sql").unlink()
    (tmp_path / "0003_new.sql").write_text("select 2;\n")
    first, second = changed_steps(tmp_path)
    assert first.startswith("sql/migrations/0001_tables.sql: was released and has changed")
    assert second.startswith("sql/migrations/0002_more.sql: was released")


def test_releases_are_in_order_and_their_migrations_are_frozen():
    """Of releases whose commit this clone has."""
    all_of_them = releases.releases()
    assert all_of_them and [r.date for r in all_of_them] == sorted(r.date for r in all_of_them)
    assert len({r.version for r in all_of_them}) == len(all_of_them)
    with open(os.path.join(STEPS, "RELEASED")) as f:
        frozen = released_steps(f.read())
    for release in filter(lambda r: releases.has(r.commit), all_of_them):
        names = releases.git("ls-tree", "--name-only", release.commit, "sql/migrations/").stdout.decode().split()
        for path in (n for n in names if n.endswith(".sql")):
            text = releases.git("show", f"{release.commit}:{path}").stdout
            assert frozen.get(os.path.basename(path)) == hashlib.sha256(text).hexdigest(), (release.version, path)


def test_release_steps_adds_what_is_missing_and_changes_no_line(tmp_path):
    steps = tmp_path / "sql" / "migrations"
    steps.mkdir(parents=True)
    for name in "0001_a.sql", "0002_b.sql":
        (steps / name).write_text(f"select '{name}';\n")
    (steps / "RELEASED").write_text(f"# Sums.\n{'0' * 64}  0001_a.sql\n")

    def add():
        subprocess.run(
            ["make", "-s", "-C", releases.TOP, "release-steps", f"STEPS={steps}"],
            env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")},
            check=True,
        )
        return (steps / "RELEASED").read_text()

    text = add()
    assert re.fullmatch(rf"# Sums\.\n0{{64}}  0001_a\.sql\n[0-9a-f]{{64}}  0002_b\.sql\n", text)
    assert add() == text


def test_a_line_of_releases_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "RELEASES"
    path.write_text(f"# Head.\n0.1.0-rc1 2026-11-27 {'a' * 40}\n0.1.0 2026-12-01 {'b' * 40}\n")
    assert [r.version for r in releases.releases(path)] == ["0.1.0-rc1", "0.1.0"]
    path.write_text("0.1.0 2026-12-01 abc\n")
    with pytest.raises(ValueError, match="'0.1.0 2026-12-01 abc' is not a version, a date and a commit"):
        releases.releases(path)


def test_a_shallow_clone_says_what_it_lacks(tmp_path):
    repo, shallow = tmp_path / "repo", tmp_path / "shallow"
    subprocess.run(["git", "init", "-q", repo], check=True)
    for word in "first", "second":
        subprocess.run(
            [
                "git",
                "-C",
                repo,
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@t",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                word,
            ],
            check=True,
        )
    first, second = (releases.git("rev-parse", w, top=str(repo)).stdout.decode().strip() for w in ("HEAD~1", "HEAD"))
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{repo}", shallow], check=True)
    with pytest.raises(LookupError, match=f"release 1: commit {first} is not in this clone\nhint: .*--unshallow"):
        releases.unpack(releases.Release("1", "2026-01-01", first), str(tmp_path / "x"), str(shallow))
    releases.unpack(releases.Release("2", "2026-01-01", second), str(tmp_path / "x"), str(shallow))
    assert (tmp_path / "x" / "COMMIT").read_text() == second
