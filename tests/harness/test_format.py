"""What format.py does besides calling clang-format."""

import format as formatter


def test_what_a_comment_has_over_the_width_begins_the_next_line():
    long = " *" + " word" * 30
    lines = formatter.split_comments(f"{long}\n * and goes on.\n * A sentence.\n{long}\n */\nint a;").split("\n")
    over = " * " + " ".join(["word"] * 7)
    assert lines == [long[:117], f"{over} and goes on.", " * A sentence.", long[:117], over, " */", "int a;"]


def test_code_keeps_its_lines():
    code = "\tint " + "x" * 130 + "; /* comment */"
    assert formatter.split_comments(code) == code


def test_a_row_of_any_width_is_formatted_once():
    """One that fills the line has no room for what keeps other rows apart."""
    row = '\t{{ "{}", 1, 2 }},'
    for width in range(98, 124):
        code = "int a[] = {\n" + "\n".join([row.format("x" * width), row.format("y" * width)]) + "\n};\n"
        once = formatter.c(code)
        assert formatter.c(once) == once, width
