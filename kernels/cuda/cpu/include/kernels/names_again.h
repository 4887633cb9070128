// After the C library's headers: the names are free.
#pragma once
#undef gamma
#undef gammaf
#undef gammal
#undef index
#undef rindex
#undef random
#undef srandom
#undef select
