/* SPDX-License-Identifier: MIT */
/* Finds the pages that have all words of the search box, those with a word in the title first. `pages` is in index.js. */
"use strict";
const root = document.currentScript.dataset.root, box = document.getElementById("search"), list = document.getElementById("found");

/* On a narrow screen the list of pages is closed at first. */
if (innerWidth < 900) document.querySelector("nav details").open = false;

function excerpt(text, word) {
	const at = Math.max(0, text.toLowerCase().indexOf(word) - 60);

	return (at ? "... " : "") + text.slice(at, at + 160) + " ...";
}

function search() {
	const words = box.value.toLowerCase().split(/\s+/).filter(w => w);
	const found = words.length ? pages.filter(p => words.every(w => `${p.title} ${p.text}`.toLowerCase().includes(w))) : [];
	const rank = p => words.filter(w => p.title.toLowerCase().includes(w)).length;

	list.replaceChildren(...found.sort((a, b) => rank(b) - rank(a)).slice(0, 10).map(p => {
		const item = document.createElement("li"), a = document.createElement("a"), text = document.createElement("p");

		a.href = root + p.path;
		a.textContent = p.title;
		text.textContent = excerpt(p.text, words[0]);
		item.append(a, text);
		return item;
	}));
	if (words.length && !found.length) {
		const item = document.createElement("li");

		item.textContent = "No page has all these words.";
		list.replaceChildren(item);
	}
}
box.form.hidden = false;
box.form.addEventListener("submit", e => e.preventDefault());
box.addEventListener("input", search);
