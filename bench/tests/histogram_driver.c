/* Reads microseconds from standard input, one a line, and prints the histogram made of them. */
#include "load.h"

#include <stdio.h>

int main(void)
{
    static Histogram histogram, all;
    long long us;
    while (scanf("%lld", &us) == 1)
        histogram_add(&histogram, us);
    histogram_merge(&all, &histogram);
    printf("{\"none\": 0");
    histogram_print("all", &all);
    puts("}");
    return 0;
}
