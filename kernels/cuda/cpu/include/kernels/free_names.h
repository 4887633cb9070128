// Before the C library's headers: what it declares by names that NVRTC leaves to the source, for variables of its own. Not
// those that C++'s own headers want to find, such as time.
#pragma once
#define gamma kernels_host_gamma
#define gammaf kernels_host_gammaf
#define gammal kernels_host_gammal
#define index kernels_host_index
#define rindex kernels_host_rindex
#define random kernels_host_random
#define srandom kernels_host_srandom
#define select kernels_host_select
