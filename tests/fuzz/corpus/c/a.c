/* A rope. */
#include <stdio.h>

struct rope { int length; char *name; };

static int pull(struct rope *r, int by) {
    if (by < 0 || !r) return -1;
    for (int i = 0; i < by; i++) r->length += i & 1;
    return printf("%s\n", r->name);
}
