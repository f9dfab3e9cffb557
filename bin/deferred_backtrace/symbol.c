/* SPDX-License-Identifier: MIT */
#include "backtrace.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>

/* All reads go through here: n items of a given size at an offset. NULL: they are not all in the file. */
static const void *part(const unsigned char *image, size_t size, uint64_t at, uint64_t n, size_t item)
{
	return at <= size && n <= (size - at) / item ? image + at : NULL;
}

static bool is_object(const unsigned char *image, size_t size, ElfW(Ehdr) * head)
{
	if (size < sizeof(*head))
		return false;
	memcpy(head, image, sizeof(*head));
	return memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 &&
	       head->e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
	       head->e_shentsize == sizeof(ElfW(Shdr));
}

/* The section of a type, by a copy: nothing in the file need be aligned. */
static bool section(const unsigned char *image, size_t size, const ElfW(Ehdr) * head, unsigned int type,
		    ElfW(Shdr) * found)
{
	const unsigned char *sections = part(image, size, head->e_shoff, head->e_shnum, sizeof(*found));

	for (unsigned int i = 0; sections && i < head->e_shnum; i++) {
		memcpy(found, sections + i * sizeof(*found), sizeof(*found));
		if (found->sh_type == type)
			return true;
	}
	return false;
}

static bool covers(const ElfW(Sym) * sym, uint64_t address)
{
	unsigned int type = sym->st_info & 0xf;

	return type == STT_FUNC && sym->st_shndx != SHN_UNDEF && sym->st_value <= address &&
	       address - sym->st_value < (sym->st_size ? sym->st_size : 1);
}

static bool find_in(const unsigned char *image, size_t size, const ElfW(Ehdr) * head, const ElfW(Shdr) * table,
		    uint64_t address, char name[SYMBOL_SIZE], uint64_t *offset)
{
	uint64_t n = table->sh_size / sizeof(ElfW(Sym));
	const unsigned char *syms = part(image, size, table->sh_offset, n, sizeof(ElfW(Sym)));
	const unsigned char *sections = part(image, size, head->e_shoff, head->e_shnum, sizeof(ElfW(Shdr))), *texts;
	ElfW(Shdr) strings;
	ElfW(Sym) sym;

	if (!syms || !sections || table->sh_link >= head->e_shnum)
		return false;
	memcpy(&strings, sections + table->sh_link * sizeof(strings), sizeof(strings));
	texts = part(image, size, strings.sh_offset, strings.sh_size, 1);
	for (uint64_t i = 0; texts && i < n; i++) {
		memcpy(&sym, syms + i * sizeof(sym), sizeof(sym));
		if (!covers(&sym, address) || sym.st_name >= strings.sh_size || !texts[sym.st_name])
			continue;
		name[0] = '\0';
		strncat(name, (const char *)texts + sym.st_name,
			strings.sh_size - sym.st_name < SYMBOL_SIZE ? strings.sh_size - sym.st_name : SYMBOL_SIZE - 1);
		*offset = address - sym.st_value;
		return true;
	}
	return false;
}

int symbol_find(const unsigned char *image, size_t size, uint64_t address, char name[SYMBOL_SIZE], uint64_t *offset)
{
	static const unsigned int types[] = {
		SHT_SYMTAB, SHT_DYNSYM
	}; /* the one is gone where it was stripped, the other has what is exported */
	ElfW(Shdr) table;
	ElfW(Ehdr) head;

	for (size_t i = 0; is_object(image, size, &head) && i < sizeof(types) / sizeof(types[0]); i++)
		if (section(image, size, &head, types[i], &table) &&
		    find_in(image, size, &head, &table, address, name, offset))
			return 0;
	return -1;
}
