// Stacks for the threads of a block, kept from block to block by the OS thread that runs them.
#pragma once
#include <memory>
#include <vector>

#include "context.h"

namespace kernels {

struct Fiber {
    Context context;
    char* mapping = nullptr;  // a guard page, then the stack

    Fiber(void (*entry)(), size_t number);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    void restart();  // abandons what ran on it
    void guard_while_running(bool runs);  // called at every switch to it and from it
    bool holds(const void* address) const;
    const void* readable(const void* address) const;  // it, or what comes next above the guard

   private:
    void (*entry)();
    size_t lower;  // bytes from the end of the mapping to the top of the stack
    bool guarded = false;
};

class FiberPool {
   public:
    explicit FiberPool(void (*entry)()) : entry(entry) {}
    Fiber* take();  // nullptr when memory for a stack cannot be had
    void give(Fiber* fiber) { idle.push_back(fiber); }
    void restart_all();

   private:
    void (*entry)();
    std::vector<std::unique_ptr<Fiber>> all;
    std::vector<Fiber*> idle;
};

}  // namespace kernels
