"""An SMTP server beside a test."""

import asyncio
import email
import email.policy
import json
import os
import threading

import smtpd


class Smtpd:
    """smtpd.py in a thread; its head tells the arguments, and which names do what."""

    def __init__(self, folder, *args):
        self.dir = str(folder)
        os.makedirs(self.dir)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.server = self.do(smtpd.listen(smtpd.arguments(["--dir", self.dir, *args])))
        self.port = self.server.sockets[0].getsockname()[1]

    def do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def envelopes(self):
        """Sender, recipients and circumstances of each mail, in order of arrival."""
        found = sorted(int(f[:-5]) for f in os.listdir(self.dir) if f.endswith(".json"))
        return [json.load(open(os.path.join(self.dir, f"{n}.json"), encoding="utf-8")) for n in found]

    def raw(self, n=1):
        with open(os.path.join(self.dir, f"{n}.eml"), "rb") as f:
            return f.read()

    def mail(self, n=1):
        """Mail n as Python's email package reads it."""
        return email.message_from_bytes(self.raw(n), policy=email.policy.default)

    def commands(self):
        """Every line received outside of messages."""
        path = os.path.join(self.dir, "commands.log")
        if not os.path.exists(path):
            return []
        with open(path, "rb") as f:
            return f.read().decode("latin-1").split("\r\n")[:-1]

    async def close(self):
        self.server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def stop(self):
        self.do(self.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
