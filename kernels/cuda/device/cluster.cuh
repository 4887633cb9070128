// CLUSTER blocks beside each other are a cluster: they run at the same time and reach each other's shared memory. Only a GPU of
// sm_90 or newer has clusters; with a CLUSTER of 1 there are none.
#pragma once

#if CLUSTER > 1
#include <cooperative_groups.h>
#define CLUSTER_DIMS __cluster_dims__(CLUSTER)
#else
#define CLUSTER_DIMS
#endif
