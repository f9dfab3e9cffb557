/* SPDX-License-Identifier: MIT */
/* shots.mjs FOLDER URL USER PASSWORD: the pictures of README, into FOLDER. `make screenshots` has a week of history served for it. Run from where npm put the packages. */
import { writeFile } from "node:fs/promises";
import { chromium } from "playwright-core";

const [folder, url, username, password] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

async function shoot(name, path, height, options = {}) {
	const context = await browser.newContext({
		httpCredentials: { username, password },
		viewport: { width: 1100, height },
		...options,
	});
	const page = await context.newPage();

	await page.goto(url + (typeof path === "function" ? await path(context) : path), { waitUntil: "load" });
	await page.waitForTimeout(500);
	/* A table that is wider than the window scrolls; on a picture it would be cut off. */
	for (let width = 1100, hidden = 1; hidden > 0; width += hidden) {
		await page.setViewportSize({ width, height });
		hidden =
			width < 1600
				? await page.evaluate(() =>
						Math.max(
							0,
							...[...document.querySelectorAll(".scroll")].map(
								e => e.scrollWidth - e.clientWidth,
							),
						),
					)
				: 0;
	}
	/* WebP is known to the browser, not to playwright. */
	const picture = await (
		await context.newCDPSession(page)
	).send("Page.captureScreenshot", { format: "webp", quality: 75 });
	await writeFile(`${folder}/${name}.webp`, Buffer.from(picture.data, "base64"));
	await context.close();
}

/* A job that was tried several times. */
async function dead(context) {
	const answer = await context.request.get(`${url}/jobs.json?state=dead&fn=charge_card`);

	return `/jobs/${(await answer.json()).jobs[0].id}`;
}

await new Promise(done => setTimeout(done, 12000)); /* for what runs and waits to be seen */
await shoot("overview", "/?range=7d", 1180);
await shoot("function", "/functions/send_mail?range=7d", 1180);
await shoot("job", dead, 720);
await shoot("dead", "/dead", 720, { colorScheme: "dark" });
await browser.close();
