"""Prints the mails an SMTP server kept in a folder, as a person would read them."""

import email
import email.policy
import glob
import json
import os
import sys

for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.eml")), key=lambda p: int(os.path.basename(p)[:-4])):
    with open(path, "rb") as f, open(path[:-4] + ".json", encoding="utf-8") as e:
        message, envelope = email.message_from_binary_file(f, policy=email.policy.default), json.load(e)
    print(f"{envelope['from']} -> {', '.join(envelope['to'])}")
    for name in ("From", "To", "Subject", "Message-ID", "Content-Type"):
        print(f"    {name}: {message[name]}")
    text = message.get_body(("plain",))
    for line in (text.get_content() if text else "").strip().splitlines():
        print(f"    | {line}")
    print()
