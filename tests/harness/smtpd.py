#!/usr/bin/python3
"""An SMTP server for tests: keeps what it gets, and answers as the recipient's name asks.

    smtpd.py [--port 0] --dir DIR [--tls starttls|tls --cert FILE --key FILE] [--auth USER:PASSWORD]
             [--slow SECONDS] [--max-size BYTES] [--utf8] [--seven-bit]

--utf8: SMTPUTF8 is offered. --seven-bit: 8BITMIME is not. Bytes above 127 that were not announced
are refused: in headers without SMTPUTF8, elsewhere without BODY=8BITMIME. Prints "PORT n" once it
is ready. Message n is kept as DIR/n.eml with its envelope in DIR/n.json: {"from": ..., "to": [...],
"tls": bool, "auth": user or null, "peer_port": n}. Every command line received goes to
DIR/commands.log. Names before the @ that mean something:

    NNN  (450 to 559)   answered so at RCPT          dataNNN    answered so after the final dot
    fromNNN             as sender: so at MAIL        grey       451 at the first try, then accepted
    drop                connection cut at RCPT       dropdata   cut after the final dot, unanswered
    slow                answered after --slow        slowdata   the final dot answered after --slow
"""

import argparse
import asyncio
import json
import os
import re
import ssl
import sys
import warnings

from aiosmtpd.smtp import SMTP, AuthResult


class Handler:
    def __init__(self, args):
        self.args = args
        self.count = 0
        self.grey = set()

    async def answer(self, server, name, prefix):
        """What the name asks for at this stage: an answer, a cut, a wait, or nothing."""
        code = re.fullmatch(prefix + r"([45]\d\d)", name)
        if code:
            return f"{code[1]} {code[1][0]}.1.0 as asked by {name}"
        if name == "drop" + prefix:
            server.transport.abort()
            return "421 cut"
        if name == "slow" + prefix:
            await asyncio.sleep(self.args.slow)
        return None

    async def handle_MAIL(self, server, session, envelope, address, options):
        answer = await self.answer(server, (address or "").split("@")[0], "from")
        if answer:
            return answer
        envelope.mail_from, envelope.mail_options = address, list(options)
        return "250 2.1.0 sender ok"

    async def handle_RCPT(self, server, session, envelope, address, options):
        name = address.split("@")[0]
        answer = await self.answer(server, name, "")
        if answer:
            return answer
        if name == "grey" and address not in self.grey:
            self.grey.add(address)
            return "451 4.7.1 greylisted, come again"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 recipient ok"

    async def handle_DATA(self, server, session, envelope):
        head, _, body = envelope.original_content.partition(b"\r\n\r\n")
        if not (head.isascii() or "SMTPUTF8" in envelope.mail_options) or not (
            body.isascii() or "BODY=8BITMIME" in envelope.mail_options
        ):
            return "554 5.6.1 bytes above 127 that were not announced"
        for address in envelope.rcpt_tos:
            answer = await self.answer(server, address.split("@")[0], "data")
            if answer and not answer.startswith("421 cut"):
                return answer
            if answer:
                self.keep(server, session, envelope)
                return answer
        return f"250 2.0.0 kept as {self.keep(server, session, envelope)}"

    def keep(self, server, session, envelope):
        self.count += 1
        base = os.path.join(self.args.dir, str(self.count))
        with open(base + ".eml", "wb") as f:
            f.write(envelope.original_content)
        with open(base + ".tmp", "w", encoding="utf-8") as f:
            auth = session.auth_data.login.decode() if session.authenticated else None
            tls = server.transport.get_extra_info("ssl_object") is not None
            json.dump(
                {
                    "from": envelope.mail_from,
                    "to": envelope.rcpt_tos,
                    "tls": tls,
                    "auth": auth,
                    "peer_port": session.peer[1],
                    "helo": session.host_name,
                },
                f,
            )
        os.rename(base + ".tmp", base + ".json")
        return self.count


class Server(SMTP):
    """The same, with a journal of what came over the line."""

    def __init__(self, handler, args, **kw):
        super().__init__(handler, **kw)
        self.journal = args.dir + "/commands.log"
        self.seven_bit = args.seven_bit
        self.no_goodbye = args.no_goodbye

    async def smtp_QUIT(self, arg):
        if not self.no_goodbye:
            await super().smtp_QUIT(arg)

    async def push(self, status):
        # A connection that was cut needs no answer.
        if not self.transport.is_closing() and not (self.seven_bit and "8BITMIME" in str(status)):
            await super().push(status)

    def data_received(self, data):
        if not getattr(self, "in_data", False):
            with open(self.journal, "ab") as f:
                f.write(data)
        return super().data_received(data)

    async def smtp_DATA(self, arg):
        self.in_data = True
        try:
            await super().smtp_DATA(arg)
        finally:
            self.in_data = False


def arguments(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--tls", choices=["starttls", "tls"])
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--auth")
    parser.add_argument("--slow", type=float, default=60)
    parser.add_argument("--utf8", action="store_true")
    parser.add_argument("--seven-bit", action="store_true")
    parser.add_argument("--no-goodbye", action="store_true")
    parser.add_argument("--max-size", type=int, default=100_000_000)
    return parser.parse_args(argv)


async def listen(args):
    """Start to serve on the running event loop; returns the asyncio server."""
    handler = Handler(args)
    options = {
        "hostname": "smtpd.test",
        "ident": "test",
        "enable_SMTPUTF8": args.utf8,
        "decode_data": False,
        "data_size_limit": args.max_size,
        "timeout": 300,
    }
    context = None
    if args.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(args.cert, args.key)
    if args.tls == "starttls":
        options.update(tls_context=context, require_starttls=True)
    if args.auth:
        user, password = args.auth.encode().split(b":", 1)

        def authenticator(server, session, envelope, mechanism, data):
            good = (data.login, data.password) == (user, password)
            return AuthResult(success=good, handled=False, auth_data=data)

        warnings.filterwarnings("ignore", message="Requiring AUTH while")
        options.update(authenticator=authenticator, auth_required=True, auth_require_tls=False)
    return await asyncio.get_running_loop().create_server(
        lambda: Server(handler, args, **options), "127.0.0.1", args.port, ssl=context if args.tls == "tls" else None
    )


async def main():
    server = await listen(arguments())
    print("PORT", server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
