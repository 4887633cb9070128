// grid_group. Its barrier needs a cooperative launch, in which all blocks of the grid are resident together.
#pragma once

namespace cooperative_groups {

class grid_group : public thread_group {
   public:
    static bool is_valid() { return kernels::self.cooperative; }
    static void sync(KERNELS_SITE) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        kernels::barrier(kernels::Barrier::grid, 0, file, line, "grid_group::sync");
    }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long block_rank() {
        return blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    static unsigned long long num_threads() { return num_blocks() * kernels::self.count; }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() { return block_rank() * kernels::self.count + kernels::self.running; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
    static dim3 dim_threads() {
        return dim3(gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z);
    }
    static dim3 block_index() { return blockIdx; }
    static dim3 thread_index() {
        return dim3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                    blockIdx.z * blockDim.z + threadIdx.z);
    }

   private:
    grid_group() : thread_group(thread_group::grid) {}
    friend grid_group this_grid();
};

inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups
