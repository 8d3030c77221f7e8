#include <math.h>

double stamp(double x) { return exp(x) / (1 + exp(x)); }
