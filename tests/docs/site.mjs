/* SPDX-License-Identifier: MIT */
/*
 * site.mjs FOLDER PAGE...: shows each page of the site in a real browser, light at 1280 pixels and dark at 390, with
 * and without JavaScript. Prints one line of JSON: a list of what was wrong. Run it from the folder of the packages.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [folder, ...pages] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const wrong = [];

for (const [name, options] of [
	["light 1280", { colorScheme: "light", viewport: { width: 1280, height: 900 } }],
	["dark 390", { colorScheme: "dark", viewport: { width: 390, height: 800 } }],
	["no JavaScript", { javaScriptEnabled: false, viewport: { width: 390, height: 800 } }],
]) {
	const context = await browser.newContext(options);
	const page = await context.newPage();

	page.on("console", m => wrong.push(`${name}: console: ${m.text()}`));
	page.on("pageerror", e => wrong.push(`${name}: error: ${e.message}`));
	for (const path of pages) {
		await page.goto(`file://${folder}/${path}`);
		if (options.javaScriptEnabled === false) {
			if (await page.getByRole("search").isVisible())
				wrong.push(`${path}: a search box that does nothing`);
			continue;
		}
		if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth))
			wrong.push(`${name} ${path}: wider than the window`);
		await page.evaluate(axe);
		/* The navigation is the same on each page. */
		const within = { exclude: path === pages[0] ? [] : [["nav"]] };
		for (const v of (await page.evaluate(c => window.axe.run(c, { preload: false }), within)).violations)
			wrong.push(`${name} ${path}: ${v.id}: ${v.nodes[0].html.slice(0, 200)}`);
	}
	await context.close();
}

/* The first answer to a question, in the words of people who do not know the documents. */
const page = await browser.newPage();
for (const [question, answer] of [
	["graphile move", "docs/how-to/move-from-graphile-worker.html"],
	["How do I send mail from PHP?", "docs/how-to/send-mail.html"],
	["why is my job late", "docs/explanation/faq.html#why-is-my-job-late"],
	["retry all failures of yesterday", "docs/how-to/retry-failed-jobs.html"],
	["what happens at reboot", "docs/how-to/reboot-and-deploy.html"],
	["limit to 10 a minute", "docs/how-to/limit-rate.html"],
	["run on managed postgresql", "docs/how-to/managed-postgresql.html"],
	["how to pause a queue", "docs/explanation/faq.html#how-do-i-pause-a-queue"],
	["how to upgrade", "docs/how-to/upgrade.html"],
	["what does exit code 75 mean", "docs/explanation/faq.html#what-does-exit-code-75-mean"],
	["write a function in Python", "docs/how-to/write-functions.html"],
	["how to test code that defers", "docs/how-to/test-your-code.html"],
	["how to secure the pages", "docs/how-to/operators-page.html"],
	["where is the log", "docs/reference/log-lines.html"],
	["how to uninstall", "docs/how-to/uninstall.html"],
	["what happens if a worker is killed", "docs/explanation/faq.html#what-happens-if-a-worker-is-killed"],
	["does it run a job twice", "docs/explanation/faq.html#can-a-job-run-twice"],
	["how large may params be", "docs/explanation/faq.html#how-large-can-params-be"],
	["two applications", "docs/how-to/several-applications.html"],
	["how to monitor", "docs/how-to/alerts.html"],
	["how do I stop a job that runs", "docs/explanation/faq.html#how-do-i-stop-a-job-that-runs"],
	["what if the database is down", "docs/explanation/faq.html#what-if-the-database-is-down"],
	["where does the database password go", "docs/explanation/faq.html#where-do-i-put-the-database-password"],
	["make a job more urgent", "docs/explanation/faq.html#how-do-i-make-a-job-urgent"],
	["jobs per second", "docs/explanation/faq.html#how-many-jobs-can-it-run-per-second"],
	["keep history for a year", "docs/how-to/retention.html"],
]) {
	await page.goto(`file://${folder}/index.html`);
	await page.getByLabel("Search", { exact: true }).fill(question);
	await page.locator("#found a").first().click();
	if (!page.url().endsWith(`/${answer}`) && page.url().replace(/#.*/, "") !== `file://${folder}/${answer}`)
		wrong.push(`"${question}" leads to ${page.url()}`);
}
await browser.close();
console.log(JSON.stringify(wrong));
