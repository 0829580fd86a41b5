/* Text from elsewhere (names, source lines, messages) on a terminal: without control characters, measured in columns, cut or wrapped to a width.
 * A character is taken to be one column wide. */
#ifndef PLIM_CLI_SCREEN_TEXT_H
#define PLIM_CLI_SCREEN_TEXT_H

#include <stddef.h>

/** Copies `text` with a '?' for every byte that is a control character or no UTF-8, and a space for a tab; what does not fit is left out, at a whole
 *  character, and so are spaces at the end. @return buf */
char *plim__screen_clean(char *buf, size_t size, const char *text);
/** Columns of a clean text. */
int plim__screen_columns(const char *text);
/** Cuts a clean text to `columns`, its last three then an ellipsis. @return text */
char *plim__screen_cut(char *text, int columns);
/** Bytes of the beginning of a clean text that fit into `columns`; it ends before the spaces between two words where that is possible. */
size_t plim__screen_wrap(const char *text, int columns);
/** Appends to a text, printf-like; what does not fit is left out. */
void plim__screen_add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** Columns of the terminal behind a descriptor, or `otherwise` where it is none. */
int plim__screen_width(int fd, int otherwise);

#endif
