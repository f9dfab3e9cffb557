"""deferred_functions(7), and deferred.send_mail() in deferred_sql(3), name the params that the
functions take, no more and no less; its example goes out."""

import os
import re

import pg


def read(*path):
    with open(os.path.join(pg.TOP, *path), encoding="utf-8") as f:
        return f.read()


PAGE = read("lib", "deferred_functions.7")


def section(name):
    return re.search(rf"(?ms)^\.Ss {re.escape(name)}\n(.*?)(?=^\.S[sh] )", PAGE)[1]


def items(text):
    return re.findall(r"(?m)^\.It Cm (\w+)$", text)


def strings(text):
    return re.findall(r'"([\w-]+)"', text)


def test_the_params_of_send_mail_are_those_it_knows():
    source, page = read("lib", "plugins", "send_mail", "mail_params.c"), section("send_mail")
    top, members = page.split("A file in\n.Cm attachments")
    address, attachment, mail = [strings(k) for k in re.findall(r"known\[\] = \{(.*?)NULL,?\s*\}", source, re.S)]
    assert sorted(items(top)) == sorted(mail)
    assert sorted(items(members)) == sorted(attachment)
    assert list(re.search(r"an object with\n\.Cm (\w+)\nand\n\.Cm (\w+) ,", page).groups()) == address
    machines, people = re.search(
        r"(?s)only ASCII:\n(.*?)These headers take any text:\n(.*?)and names that", page
    ).groups()
    rules = read("lib", "base", "mail_rules.c")
    plain, text = [strings(k) for k in re.findall(r"const (?:plain|text)_names\[\] = \{(.*?)NULL,?\s*\}", rules, re.S)]
    assert (
        re.findall(r"[A-Z][\w-]+", machines.replace(".Cm", "")) == plain
        and re.findall(r"[A-Z][\w-]+", people.replace(".Cm", "")) == text
    )
    # And the function in SQL, by which opts say the label.
    listed = re.search(r"(?s)deferred\.send_mail\((.*?)opts json\)", read("lib", "deferred_sql.3"))[1].replace(
        "\\(dq", '"'
    )
    assert set(re.findall(r'"?(\w+)"? (?:text|json)\b', listed)) == set(mail) - {"deliver_to", "label"}


def test_the_params_of_http_are_those_it_knows():
    source, page = read("lib", "plugins", "http", "outbound_params.c"), section("http")
    (known,) = re.findall(r"known\[\] = \{(.*?)\}", source, re.S)
    assert sorted(items(page)) == sorted(strings(known))
    (reserved,) = re.findall(r"reserved\[\] = \{(.*?)\}", source, re.S)
    listed = re.search(r"length of the body are refused:\n\.Li (.*?)\nand names", page, re.S)[1]
    assert sorted(listed.split(" , ")) == sorted(strings(reserved))


def test_the_params_of_the_sample_functions_are_those_they_read():
    source = read("lib", "plugins", "sample.c")
    table = dict(re.findall(r'\{ \.name = "(\w+)", (?:\.run_many = \w+, )?\.run = (\w+) \}', source))
    assert {name.split(".")[1] for name in re.findall(r"(?m)^\.Ss (sample\.\w+)$", PAGE)} == set(table)
    for name, function in table.items():
        body = re.search(rf"(?ms)^static int {function}\(.*?^\}}", source)[0]
        assert sorted(items(section(f"sample.{name}"))) == sorted(
            re.findall(r'json_object_get\(params, "(\w+)"\)', body)
        ), name


def test_the_example_of_the_page_is_a_mail_that_goes_out(db, smtpd):
    text = PAGE[PAGE.index(".Sh EXAMPLES") : PAGE.index(".Sh SEE ALSO")]
    db.sql(re.search(r"(?ms)^\.Bd .*?\n(.*?)^\.Ed", text)[1].replace("\\e", "\\"))
    server = smtpd()
    db.config(f'mail {{\n from = "app@example.org"\n port = {server.port}\n}}\n')
    assert db.run(["check_deferred"]).returncode == 0 and db.hot() == 0
    mail = server.mail()
    assert (
        mail["List-Unsubscribe"] == "<https://example.org/out>"
        and [p.get_content() for p in mail.iter_attachments()][-1] == "1;2\n"
    )
    assert db.sql("select label, queue, key from deferred.__deferred") == [("Your invoice", "mail", "invoice-4711")]
