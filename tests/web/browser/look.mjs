/* SPDX-License-Identifier: MIT */
/*
 * look.mjs URL JOB DEAD LATER FLOW APPROVAL CLAIMED OPERATOR VIEWER PASSWORD: a real browser on every page: light and dark, wide and 320 px, as the operator and as the viewer; each
 * checked with axe; by keyboard; without JavaScript; each button. Prints one line of JSON: what was wrong. Run from where npm put the packages.
 */
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [url, job, dead, later, flow, approval, claimed, operator, viewer, password] = process.argv.slice(2);
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const pages = [
	"/",
	"/queues",
	"/queues/default",
	"/jobs",
	"/jobs?state=dead",
	`/jobs/${job}`,
	`/jobs/${dead}`,
	`/jobs/${approval}`,
	`/jobs/${later}/edit`,
	"/running",
	"/dead",
	"/functions",
	"/functions/fail",
	"/functions/sleep?range=24h",
	"/recurring",
	"/recurring/nightly",
	"/flows",
	`/flow/${flow}`,
	`/jobs/${Number(flow) + 2}`,
	"/workers",
	"/rules",
	"/accounts",
	"/tokens",
	"/audit",
	"/doctor",
	"/advice",
	"/jobs?state=ready&queue=bulk",
	"/jobs/all?verb=cancel&state=ready&queue=bulk",
	"/queues/default/clear",
	"/defer?fn=noop",
	"/schedule",
	"/schedule?name=nightly",
];
const wrong = [];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const check = (what, ok) => ok || wrong.push(what);

async function person(username, options = {}) {
	const context = await browser.newContext({
		httpCredentials: { username, password },
		bypassCSP: false,
		...options,
	});
	const page = await context.newPage();

	page.setDefaultTimeout(120000); /* on a busy machine, a page takes many seconds */
	page.on("console", m => wrong.push(`console: ${m.text()}`));
	page.on("pageerror", e => wrong.push(`error: ${e.message}`));
	page.on("dialog", d =>
		/^(Cancel|Pause)/.test(d.message()) ? d.accept() : (wrong.push(`dialog: ${d.message()}`), d.dismiss()),
	);
	return page;
}

/* A page that is being computed loads itself again, which would end a check. So it is asked for until it is complete. */
const computed = { "/doctor": "unknown in", "/advice": "Basis of this advice" };
async function open(page, path) {
	for (const end = Date.now() + 120000; Date.now() < end; await page.waitForTimeout(500)) {
		const answer = await page.goto(url + path);

		if (
			!answer.headers().refresh &&
			(await page.locator("main").innerText()).includes(computed[path] ?? "")
		)
			return;
	}
	wrong.push(`${path}: not complete within 120 s`);
}

/* The policy of the pages lets no foreign script in, so axe comes by the debugger's own way. */
async function axed(page, what) {
	await page.evaluate(await (await import("node:fs/promises")).readFile(axe, "utf8"));
	const found = await page.evaluate(() => window.axe.run());

	for (const v of found.violations) wrong.push(`${what}: ${v.id}: ${v.nodes[0].html.slice(0, 200)}`);
}

for (const [name, options] of [
	["light 1024", { colorScheme: "light", viewport: { width: 1024, height: 768 } }],
	["dark 320", { colorScheme: "dark", viewport: { width: 320, height: 640 } }],
]) {
	const page = await person(operator, options);

	for (const path of pages) {
		await open(page, path);
		check(
			`${name} ${path}: wider than the window`,
			await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
		);
		/* The navigation is one line at 1024 pixels, and two at 390. */
		for (const [width, lines] of options.viewport.width === 1024
			? [
					[1024, 1],
					[390, 2],
				]
			: []) {
			await page.setViewportSize({ width, height: 768 });
			check(
				`${path}: wider than ${width}`,
				await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
			);
			check(
				`${path}: the navigation at ${width}`,
				(await page.evaluate(
					() =>
						new Set(
							[...document.querySelectorAll(".sections a")].map(
								a => a.offsetTop,
							),
						).size,
				)) <= lines,
			);
		}
		await page.setViewportSize(options.viewport);
		check(
			`${name} ${path}: a script ran`,
			await page.evaluate(() => document.querySelectorAll("script").length === 1),
		);
		await axed(page, `${name} ${path}`);
	}
	await page.context().close();
}

/* A token has its row, on a page without a button. */
{
	const page = await person(operator);

	await page.goto(`${url}/accounts`);
	await page.getByRole("link", { name: "Tokens", exact: true }).click();
	check("a token", (await page.getByRole("row", { name: "shop defer,work order.* any never" }).count()) === 1);
	check("a button for tokens", (await page.locator("main button").count()) === 0);
	await page.context().close();
}

/* Buttons, one after the other, by keyboard. */
const page = await person(operator);
async function press(path, label, said) {
	await page.goto(url + path);
	await page.getByRole("button", { name: label, exact: true }).focus();
	await page.keyboard.press("Enter");
	await page.waitForURL(u => u.search !== "");
	check(`${path} ${label}`, (await page.getByRole("status").innerText()).includes(said));
}
await press(`/jobs/${dead}`, "Retry", "run again");
await press(`/jobs/${dead}`, "Cancel", "cancelled");
/* A job that waits is changed by its form. What is refused stays there. */
await page.goto(`${url}/jobs/${later}`);
await page.getByRole("link", { name: "Edit", exact: true }).focus();
await page.keyboard.press("Enter");
await page.getByLabel("Priority").fill("high");
await page.getByLabel("Not before").fill("2h");
await page.getByLabel("Params (JSON)").fill('{"to":\n"b"}');
await page.getByLabel("Priority").focus();
await page.keyboard.press("Enter");
await page.getByRole("alert").waitFor();
check(
	"a change that was typed is kept",
	(await page.getByLabel("Priority").inputValue()) === "high" &&
		(await page.getByLabel("Not before").inputValue()) === "2h" &&
		(await page.getByLabel("Params (JSON)").inputValue()) === '{"to":\n"b"}',
);
await axed(page, "a change that was refused");
await page.getByLabel("Priority").fill("7");
await page.keyboard.press("Enter");
await page.waitForURL(/done=update$/);
check("Edit", (await page.getByRole("status").innerText()).includes("The job was changed."));
await page.goto(`${url}/jobs/${claimed}`);
check("a claimed job can be edited", (await page.getByRole("link", { name: "Edit", exact: true }).count()) === 0);
await page.goto(`${url}/jobs/${claimed}/edit`); /* as a page from before the claim */
await page.getByLabel("Priority").fill("7");
await page.keyboard.press("Enter");
check(
	"a claimed job was changed",
	(await page.getByRole("alert").innerText()).includes(`job ${claimed} is claimed`),
);
await press(`/jobs/${later}`, "Run now", "ready now");
/* Somebody approves: writes a payload, and sends the event that the job waits for. */
await page.goto(`${url}/jobs/${approval}`);
await page.getByLabel("Payload of approved").fill('{"by": "Ann"}');
await page.getByRole("button", { name: "Send event", exact: true }).focus();
await page.keyboard.press("Enter");
await page.waitForURL(/done=send/);
check("Send event", (await page.getByRole("status").innerText()).includes("The event is sent"));
await press("/queues/default", "Pause", "paused");
await press("/queues/default", "Resume", "is active again");
await press(`/flow/${flow}`, "Cancel", "cancelled");
await press(`/flow/${flow}`, "Retry", "run again");
await press("/recurring/nightly", "Pause", "paused");
await press("/recurring/nightly", "Resume", "is active again");
await press("/recurring/nightly", "Run now", "One job");
for (const path of ["/queues/default", "/functions/fail"]) {
	await page.goto(url + path);
	await page.getByLabel("Burst", { exact: true }).focus();
	await page.getByLabel("Max running").fill("7");
	await page.keyboard.press("Enter");
	await page.waitForURL(/done=set/);
	check(`${path} Set`, (await page.getByLabel("Max running").inputValue()) === "7");
}

/* "/" finds, j and Enter open. */
await page.goto(`${url}/jobs`);
await page.keyboard.press("/");
await page.keyboard.type(job);
await page.keyboard.press("Enter");
await page.waitForURL(`**/jobs/${job}`);
await page.goto(`${url}/jobs`);
await page.keyboard.press("j");
await page.keyboard.press("Enter");
await page.waitForURL(/\/jobs\/\d+$/);
/* "?" tells the keys, Escape closes that. */
await page.keyboard.press("?");
check("help of keys", await page.getByRole("dialog", { name: "Keys" }).isVisible());
await axed(page, "help of keys");
await page.keyboard.press("Escape");
check("help of keys is closed", !(await page.getByRole("dialog", { name: "Keys" }).isVisible()));
/* The first stop leads past the navigation. */
await page.goto(url);
await page.keyboard.press("Tab");
check("skip link", await page.evaluate(() => document.activeElement.className === "skip"));

/* The values of a chart are told where the pointer is, and by arrow keys; what is shown stays while the page is refreshed. */
await page.goto(`${url}/functions/sleep?range=24h`);
const plot = page.getByRole("slider", { name: /^Run time per 10 minutes/ }),
	readout = page.locator("figure", { has: plot }).locator(".readout");
const bar = Number(await page.locator("figure", { has: plot }).locator("tr[data-at]").nth(1).getAttribute("data-at"));
const told = /^\d{4}-\d\d-\d\d \d\d:\d\d UTC: p50 .* s, p95 .* s, p99 .* s$/;
await plot.focus();
await page.keyboard.press("Home");
check("the first bar", /UTC: /.test(await readout.innerText()) && (await plot.getAttribute("aria-valuenow")) === "0");
for (let at = 0; at < bar; at++) await page.keyboard.press("ArrowRight");
check(
	"a bar by keyboard",
	told.test(await readout.innerText()) &&
		(await plot.getAttribute("aria-valuetext")) === (await readout.innerText()),
);
await axed(page, "a bar by keyboard");
await page.keyboard.press("End");
await plot.scrollIntoViewIfNeeded();
const box = await plot.boundingBox();
await page.mouse.move(box.x + ((bar + 0.5) / 144) * box.width, box.y + box.height / 2);
check(
	"a bar by the pointer",
	told.test(await readout.innerText()) && (await plot.getAttribute("aria-valuenow")) === String(bar),
);

/* What changes is seen without a reload. */
await page.goto(`${url}/queues/default`);
const before = await page.locator("#depth").innerText();
process.stdout.write("ready\n");
await page.waitForFunction(text => document.getElementById("depth").innerText !== text, before);

const other = await person(viewer);
for (const path of pages.filter(p => !/^\/jobs\/all|clear$|edit$|^\/defer|^\/schedule/.test(p))) {
	/* which viewers may not see */
	await open(other, path);
	check(`viewer ${path}: a button to act`, (await other.locator("form.act").count()) === 0);
}
const plain = await person(operator, { javaScriptEnabled: false });
await plain.goto(`${url}/jobs/${job}`);
check("without JavaScript", (await plain.locator("main").innerText()).includes("Attempts"));
for (const path of Object.keys(computed)) await open(plain, path);
await plain.goto(`${url}/flow/${flow}`);
check(
	"a graph without JavaScript",
	(await plain.getByRole("img", { name: /what they wait for/ }).isVisible()) &&
		(await plain.locator("main").innerText()).includes("Waits for"),
);

/* Many jobs at once: by a script to the end, without one step by step. */
await page.goto(`${url}/jobs?state=ready&queue=bulk`);
await page.getByRole("link", { name: "cancel", exact: true }).click();
await page.getByRole("button", { name: /^Cancel (them|all of them)$/ }).click();
await page.waitForFunction(() =>
	document.querySelector("[role=status]")?.innerText.includes("1500 jobs were cancelled."),
);
await axed(page, "many cancelled");
await plain.goto(`${url}/jobs/all?verb=retry&state=cancelled&queue=bulk`);
await plain.getByRole("button", { name: /^Retry (them|all of them)$/ }).click();
for (let steps = 0; (await plain.getByRole("button", { name: "Continue" }).count()) > 0; steps++) {
	/* as many as there is time for */
	check(
		"a step without JavaScript",
		(await plain.getByRole("status").innerText()).includes("are ready again so far.") && steps < 100,
	);
	await plain.getByRole("button", { name: "Continue" }).click();
}
check(
	"the last step without JavaScript",
	(await plain.getByRole("status").innerText()).includes("1500 jobs are ready again."),
);

/* A queue is cleared by its name, the wrong one kept to be mended; with a script and without one. */
await page.goto(`${url}/queues/bulk`);
await page.getByRole("link", { name: "Clear this queue" }).focus();
await page.keyboard.press("Enter");
await page.getByLabel("Type the name of the queue").focus();
await page.keyboard.type("bul");
await page.keyboard.press("Enter");
await page.getByRole("alert").waitFor();
await axed(page, "a wrong name");
await page.getByLabel("Type the name of the queue").focus();
await page.keyboard.press("End");
await page.keyboard.type("k");
await page.keyboard.press("Enter");
await page.waitForFunction(() =>
	document.querySelector("[role=status]")?.innerText.includes("1500 jobs were cancelled."),
);
await axed(page, "a queue cleared");
await plain.goto(`${url}/queues/mail/clear`);
await plain.getByLabel("Type the name of the queue").fill("mail");
await plain.getByRole("button", { name: "Clear the queue" }).click();
check("cleared without JavaScript", (await plain.getByRole("status").innerText()).includes("60 jobs were cancelled."));

/* A job by a form: what is refused stays there; by keyboard, and without JavaScript. */
await page.goto(`${url}/functions`);
await page.getByRole("link", { name: "Defer a job", exact: true }).click();
await page.getByLabel("Function").focus();
await page.keyboard.type("noop");
await page.getByLabel("Params (JSON)").fill('{"a": <b>\u202e\n}');
await page.getByRole("button", { name: "Defer" }).focus();
await page.keyboard.press("Enter");
await page.getByRole("alert").waitFor();
check(
	"what was typed is kept",
	(await page.getByLabel("Params (JSON)").inputValue()) === '{"a": <b>\u202e\n}' &&
		(await page.getByLabel("Function").inputValue()) === "noop",
);
await axed(page, "a job that was refused");
await page.getByLabel("Params (JSON)").fill('{"a":\n1}');
await page.getByLabel("Label").focus();
await page.keyboard.type("by hand");
await page.keyboard.press("Enter");
await page.waitForURL(/\/jobs\/\d+\?done=defer$/);
check("a job by hand", (await page.locator("main").innerText()).includes("by hand"));
await plain.goto(`${url}/defer?fn=noop`);
await plain.getByRole("button", { name: "Defer" }).click();
check("a job without JavaScript", /\/jobs\/\d+\?done=defer$/.test(plain.url()));

/* A schedule by a form: what is refused stays there; by keyboard, and changed without JavaScript. */
await page.goto(`${url}/recurring`);
await page.getByRole("link", { name: "Add a schedule" }).focus();
await page.keyboard.press("Enter");
await page.getByLabel("Name", { exact: true }).fill("weekly");
await page.getByLabel("Rule").fill("61 2 * * 1");
await page.getByLabel("Function", { exact: true }).fill("noop");
await page.keyboard.press("Enter");
await page.getByRole("alert").waitFor();
check(
	"a rule that was typed is kept",
	(await page.getByLabel("Rule").inputValue()) === "61 2 * * 1" &&
		(await page.getByRole("alert").innerText()).includes("61"),
);
await axed(page, "a schedule that was refused");
await page.getByLabel("Rule").fill("1 2 * * 1");
await page.keyboard.press("Enter");
await page.waitForURL(/\/recurring\/weekly\?done=set$/);
await plain.goto(`${url}/recurring/weekly`);
await plain.getByRole("link", { name: "Change" }).click();
await plain.getByLabel("Rule").fill("@weekly");
await plain.getByRole("button", { name: "Save" }).click();
check(
	"a schedule without JavaScript",
	(await plain.getByRole("status").innerText()).includes("The schedule is saved.") &&
		(await plain.locator("main").innerText()).includes("@weekly"),
);

/*
 * A page that nobody touches is asked for less often, and as often as before once somebody does. Answers are made here at once, because a page asks a slow
 * server less often. The clock moves in small steps, because a step counts as the time that an answer took.
 */
const idle = await person(viewer);
await idle.clock.install();
await idle.addInitScript(() => {
	window.asked = 0;
	window.fetch = async () => {
		window.asked++;
		return new Response(null, { status: 304 });
	};
});
await idle.goto(`${url}/queues`);
const asked = () => idle.evaluate(() => window.asked);
async function asks_in(seconds) {
	const before = await asked();

	for (let s = 0; s < 10 * seconds; s++) await idle.clock.runFor(100);
	return (await asked()) - before;
}
const looked_at = await asks_in(60);
await idle.clock.fastForward(11 * 60000);
const alone = await asks_in(60);
check(
	`a page was asked for ${looked_at} times in a minute, and ${alone} times left alone`,
	looked_at > 7 && alone <= 7,
);
const before_touch = await asked();
await idle.keyboard.press("Escape");
check("touched again, a page is asked for at once", (await asked()) > before_touch);

/* An answer that is shown stays while the server computes the next one, which is then there without a reload, however long the server took to say so. */
const waiting = await person(viewer);
await waiting.addInitScript(() => {
	window.asked = 0;
	window.fetch = async () => {
		if (window.asked++ > 0)
			return new Response(
				`<div id="kept">The next advice, after ${document.getElementById("kept").innerText}</div>`,
			);
		await new Promise(resolve => {
			setTimeout(resolve, 1500);
		});
		return new Response('<div id="kept">Being computed.</div>', { headers: { Refresh: "1" } });
	};
});
await waiting.goto(`${url}/advice`);
await waiting.getByText("The next advice, after ").waitFor();
check(
	"an answer is replaced by a placeholder",
	!(await waiting.locator("#kept").innerText()).includes("Being computed."),
);

console.log(JSON.stringify(wrong));
await browser.close();
