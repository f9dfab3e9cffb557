"""prose.py finds what it is there to find, and what it finds has not become more."""

import pytest

import prose

SENTENCE = " ".join(["a"] * 26)


@pytest.mark.parametrize(
    "name, text, found",
    [
        ("a.md", "Go on. " * 12, []),
        ("a.md", f"One.\n\n{SENTENCE}.\n", [("long", 3)]),
        ("a.md", f"```\n{SENTENCE}\n```\n", []),
        ("a.md", "x " * 60 + "\n", [("wide", 1), ("long", 1)]),
        ("a.md", "The row is told anew.\n", [("words", 1)]),
        ("a.md", "What can I do?\n\nWhat is old goes.\n", [("words", 3)]),
        ("a.md", "| a job is mended | b |\n", [("words", 1)]),
        ("a.7", f".Sh NAME\n.Nm x\nis\n.Fl f\n{SENTENCE}.\n", [("long", 2)]),
        ("a.7", ".Pp\nOne two.\nThree four.\n.Bd -literal\nWho waits\n.Ed\n", []),
        ("a.service", f"# The row is told anew.\nUser=a\n#\n#     {SENTENCE}\n", [("words", 1)]),
        ("a.crontab", f"# Two\n# {SENTENCE[2:]}.\n#*/2 * * * *  {SENTENCE}\n#     {'x' * 100}\n", [("long", 1)]),
        ("rules", f"\t# {SENTENCE[2:]} b\n\t#\t{SENTENCE}\n# {'x' * 100}\n", [("wide", 3), ("long", 1)]),
        ("a.c", f"/* The {SENTENCE[:30]}\n * {SENTENCE[31:]} */\n", [("long", 1)]),
        ("a.c", 'say("the value of this is no number");\n', [("messages", 1)]),
        ("a.c", 'say("the value \\"%s\\" is not a number");\n', [("messages", 1)]),
        ("a.c", 'say("Try \\"deferred add --help\\" to see all");\n', [("messages", 1)]),
        ("a.c", 'say("unknown setting \\"%s\\" is in the file");\n', [("messages", 1)]),
        ("a.c", "/* A list is no number. */\n", []),
        (
            "a.sql",
            "-- Who waits for it is first.\nraise exception using message = 'the value of this is no number';\n",
            [("words", 1), ("messages", 2)],
        ),
        (
            "lib/languages/a.py",
            f'"""One.\n\n    {SENTENCE}\n\nTwo.\n"""\nx = 1  # anew\n# It is told anew.\n',
            [("words", 8)],
        ),
        ("lib/languages/a.py", f'def f():\n    """{SENTENCE}."""\n    return "It is told anew."\n', [("long", 2)]),
        ("a.py", '"""It is told anew."""\n', []),
        (
            "lib/languages/a.pm",
            f"# It is told anew.\n\n=head1 A\n\n    {SENTENCE}\n\nSee C<a anew>.\n\n{SENTENCE}\n\n=cut\n\nanew()\n",
            [("words", 1), ("long", 9)],
        ),
        ("a.js", 'f("http://anew.example.org/ anew"); // It is told anew.\n// One.\n', [("words", 1)]),
        ("a.php", f"<?php\n/**\n * One.\n *\n * {SENTENCE}\n * @param x told anew\n */\n", [("long", 5), ("words", 6)]),
    ],
)
def test_it_finds(tmp_path, monkeypatch, name, text, found):
    monkeypatch.setattr(prose, "TOP", str(tmp_path))
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert [(kind, line) for kind, line, _ in prose.faults(name)] == found


def test_no_file_has_faults(capsys):
    assert prose.main([]) == 0, capsys.readouterr().out
