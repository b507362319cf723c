/*
 * marks: tells callgrind, from inside the program it watches, when to begin counting and when to write down.
 * A shared library, called from Python. Outside of callgrind both calls do nothing.
 */
#include <valgrind/callgrind.h>

void mark_begin(void) {
    CALLGRIND_ZERO_STATS;
    CALLGRIND_START_INSTRUMENTATION;
}

void mark_end(const char *name) {
    CALLGRIND_STOP_INSTRUMENTATION;
    CALLGRIND_DUMP_STATS_AT(name);
}
