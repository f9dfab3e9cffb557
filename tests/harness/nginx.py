"""nginx in a folder of its own, run as a child of a test, with what it does by itself."""

import grp
import os
import pwd
import shutil
import socket

import harness

CONF = """
daemon off;
user {user} {group};
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ }}
http {{
	access_log off;
	client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
	uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
	{http}
}}
"""


class Nginx:
    """Has a port as a Front has. `http` is the text inside of http {}, in which PORT stands for that port."""

    def __init__(self, db, http):
        self.dir = os.path.join(db.dir, "nginx")
        os.mkdir(self.dir)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        path = os.path.join(self.dir, "nginx.conf")
        user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
        with open(path, "w") as conf:
            conf.write(
                CONF.format(user=user, group=group, dir=self.dir, http=http.replace("PORT", f"127.0.0.1:{self.port}"))
            )
        self.log = os.path.join(self.dir, "error.log")
        self.program = db.spawn(
            [shutil.which("nginx") or "/usr/sbin/nginx", "-e", self.log, "-p", self.dir, "-c", path]
        )
        harness.wait_for(self.listens, what="nginx: " + self.program.output())

    def listens(self):
        if not self.program.alive():
            with open(self.log) as log:
                raise AssertionError(self.program.output() + log.read())
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0
