/* Pages work without any of this. It renews what is shown, asks before what cannot be undone, and serves the
 * keyboard. */
"use strict";

const every = 2000,
	patience = 600000;
let tag = null,
	wait = every,
	touched = performance.now(),
	timer,
	busy = false;

/* The pause before the next look. An open page takes a fiftieth of the time at most: slow answers mean that the
 * server is busy. A page that nobody has touched for ten minutes is renewed less often. */
function pause(took) {
	if (performance.now() - touched > patience) return Math.min(600000, Math.max(5 * every, 250 * took));
	return Math.min(60000, Math.max(every, 50 * took));
}

/* The same page once more. If nothing has changed, the server says so. The element with the focus stays as it is, and
 * so do opened details. */
async function refresh() {
	const parts = document.querySelectorAll("[data-live]");

	if (parts.length === 0 || busy) return;
	busy = true;
	if (!document.hidden) {
		const began = performance.now();

		try {
			const answer = await fetch(location.href, {
				headers: tag ? { "If-None-Match": tag } : {},
				cache: "no-store",
				redirect: "error",
			});
			const again = 1000 * Number(answer.headers.get("Refresh"));

			if (answer.status === 200 && !again) {
				const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");

				tag = answer.headers.get("ETag");
				for (const part of parts) {
					const other = fresh.getElementById(part.id);

					if (
						other &&
						!part.contains(document.activeElement) &&
						!part.querySelector("details[open], tr.at, .plot:hover")
					)
						part.replaceChildren(...document.importNode(other, true).childNodes);
				}
				prepare_charts();
			}
			/* The server is still computing. The old answer stays until then. */
			wait = again || pause(performance.now() - began);
		} catch {
			wait = Math.min(60000, 2 * wait);
		}
	}
	busy = false;
	timer = setTimeout(refresh, wait);
}

/* The values of a bar, from the row of the table behind the chart. A bar without a row has none. */
function show_bar(plot, at) {
	const { bars, from, width } = plot.dataset,
		bar = Math.min(bars - 1, Math.max(0, at));
	const figure = plot.closest("figure"),
		row = figure.querySelector(`tr[data-at="${bar}"]`);
	const time = new Date(1000 * (Number(from) + bar * width))
		.toISOString()
		.replace("T", " ")
		.slice(0, width < 86400 ? 16 : 10);
	const values = [...figure.querySelectorAll("th")]
		.slice(1)
		.map((head, i) => `${head.textContent} ${row?.cells[i + 1].textContent}`);
	const svg = plot.querySelector("svg"),
		ns = "http://www.w3.org/2000/svg";
	const cursor = svg.querySelector(".cursor") ?? svg.appendChild(document.createElementNS(ns, "rect"));

	for (const [name, value] of Object.entries({ class: "cursor", x: bar, y: 0, width: 1, height: 100 }))
		cursor.setAttribute(name, value);
	plot.setAttribute("aria-valuenow", bar);
	plot.setAttribute("aria-valuetext", `${time} UTC: ${row ? values.join(", ") : "none"}`);
	figure.querySelector(".readout").textContent = plot.getAttribute("aria-valuetext");
}

function prepare_charts() {
	for (const plot of document.querySelectorAll(".plot:not([role])")) {
		const readout = document.createElement("p"),
			hint = "Point at a bar, or use the arrow keys.";

		readout.className = "readout";
		readout.textContent = hint;
		plot.closest(".axes").after(readout);
		plot.tabIndex = 0;
		for (const [name, value] of Object.entries({
			role: "slider",
			"aria-label": plot.querySelector("title").textContent,
			"aria-valuemin": 0,
			"aria-valuemax": plot.dataset.bars - 1,
			"aria-valuenow": plot.dataset.bars - 1,
			"aria-valuetext": hint,
		}))
			plot.setAttribute(name, value);
	}
}

for (const kind of ["pointermove", "pointerdown"])
	document.addEventListener(kind, (event) => {
		const plot = event.target.closest(".plot"),
			box = plot?.getBoundingClientRect();

		if (plot) show_bar(plot, Math.floor(((event.clientX - box.left) / box.width) * plot.dataset.bars));
	});

/* A page that is opened again is shown as it is now. */
function touch() {
	const away = performance.now() - touched > patience;

	touched = performance.now();
	if (away) {
		clearTimeout(timer);
		refresh();
	}
}

/* A row to go on from: the one marked, or the first. */
function move(step) {
	const rows = [...document.querySelectorAll("tbody tr")],
		at = rows.findIndex((row) => row.classList.contains("at"));
	const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];

	if (!next) return;
	rows[at]?.classList.remove("at");
	next.classList.add("at");
	next.scrollIntoView({ block: "nearest" });
	next.querySelector("a")?.focus();
}

addEventListener("keydown", (event) => {
	if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea")) return;
	const plot = event.target.closest(".plot"),
		now = Number(plot?.getAttribute("aria-valuenow"));
	const to =
		plot &&
		{
			ArrowLeft: now - 1,
			ArrowDown: now - 1,
			ArrowRight: now + 1,
			ArrowUp: now + 1,
			Home: 0,
			End: plot.dataset.bars - 1,
		}[event.key];

	if (to !== undefined && plot) {
		show_bar(plot, to);
		event.preventDefault();
	} else if (event.key === "/") {
		document.getElementById("q").focus();
		event.preventDefault();
	} else if (event.key === "?") {
		const keys = document.getElementById("keys");

		if (!keys.open) keys.showModal();
	} else if (event.key === "j" || event.key === "k") {
		move(event.key === "j" ? 1 : -1);
	} else if (event.key === "Escape") {
		document.querySelector("tr.at")?.classList.remove("at");
	}
});
addEventListener("submit", (event) => {
	const text = event.target.querySelector("[data-confirm]")?.dataset.confirm;

	if (text && !confirm(text)) event.preventDefault();
});
/* The next step of what is done to many jobs; whoever presses Stop is elsewhere by then. */
setTimeout(() => document.querySelector("form[data-go]")?.requestSubmit(), 400);
for (const kind of ["pointermove", "keydown", "scroll", "visibilitychange"])
	document.addEventListener(kind, touch, { capture: true, passive: true });
prepare_charts();
timer = setTimeout(refresh, every);
