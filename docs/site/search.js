/* SPDX-License-Identifier: MIT */
/*
 * Finds sections for a question. Words that say nothing and endings of words are left out. Pages that have all other
 * words are shown, or else those that have the most. `pages` is in index.js.
 */
"use strict";
const root = document.currentScript.dataset.root,
	box = document.getElementById("search"),
	list = document.getElementById("found");
const empty = new Set(
	(
		"a an and are at be by can did do does for from get has have how i if in into is it its my of on or " +
		"should that the to what when where which will with you"
	).split(" "),
);

/* On a narrow screen the list of pages is closed at first. */
if (innerWidth < 900) document.querySelector("nav details").open = false;

function words_of(question) {
	const words = question
		.toLowerCase()
		.split(/[^\w.@-]+/)
		.filter((w) => w);
	const telling = words.filter((w) => !empty.has(w));

	return (telling.length ? telling : words).map((w) => (w.length > 4 ? w.replace(/(ing|ed|es|s)$/, "") : w));
}

const in_text = (text, words) => words.filter((w) => text.toLowerCase().includes(w));

function excerpt(text, words) {
	const word = in_text(text, words).sort((a, b) => b.length - a.length)[0];
	const at = Math.max(0, text.toLowerCase().indexOf(word) - 60);

	return (at ? "... " : "") + text.slice(at, at + 160) + " ...";
}

/* The section of a page that fits best, with how well it does. */
function best(page, words) {
	const all = [page.title, ...page.sections.map((s) => `${s.title} ${s.text}`)].join(" ");
	const has = in_text(all, words).length;
	const score = (s) =>
		in_text(page.title, words).length / 2 +
		3 * in_text(`${page.title} ${s.title}`, words).length +
		in_text(`${s.title} ${s.text}`, words).length;
	const section = page.sections.reduce((a, b) => (score(b) > score(a) ? b : a));

	return { page, section, has, score: score(section) };
}

function search() {
	const words = words_of(box.value),
		all = words.length ? pages.map((p) => best(p, words)) : [];
	const most = Math.max(0, ...all.map((f) => f.has)),
		found = all.filter((f) => f.has > 0 && f.has === most);

	list.replaceChildren(
		...found
			.sort((a, b) => b.score - a.score)
			.slice(0, 10)
			.map(({ page, section }) => {
				const item = document.createElement("li"),
					a = document.createElement("a"),
					text = document.createElement("p");

				a.href = root + page.path + (section.id ? `#${section.id}` : "");
				a.textContent = page.title;
				if (section.title && section.title !== page.title)
					a.textContent += `: ${section.title}`;
				text.textContent = excerpt(section.text, words);
				item.append(a, text);
				return item;
			}),
	);
	if (words.length && !found.length) {
		const item = document.createElement("li");

		item.textContent = "No page has these words.";
		list.replaceChildren(item);
	}
}
box.form.hidden = false;
box.form.addEventListener("submit", (e) => e.preventDefault());
box.addEventListener("input", search);
