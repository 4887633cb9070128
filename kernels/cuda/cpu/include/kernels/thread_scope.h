// cuda::thread_scope, the one that <cuda/atomic> has too.
#pragma once
#include "kernels/host_begin.h"
#include <cuda/std/__atomic/scopes.h>
#include "kernels/host_end.h"

namespace cuda {
using std::thread_scope;
using std::thread_scope_block;
using std::thread_scope_device;
using std::thread_scope_system;
using std::thread_scope_thread;
}  // namespace cuda
