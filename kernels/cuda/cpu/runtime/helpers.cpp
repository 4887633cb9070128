// OS threads, started when first asked for and kept. Launches from several Python threads share them.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <system_error>
#include <thread>
#include <vector>

#include "worker.h"

namespace kernels {

namespace {

struct Helpers {
    std::mutex mutex;
    std::condition_variable work, done;
    std::vector<Launch*> launches;  // that want help
    int threads = 0;

    Launch* choose() {
        for (Launch* launch : launches)
            if (launch->helpers_working < launch->helpers_wanted && launch->next < launch->blocks && !launch->failed)
                return launch;
        return nullptr;
    }

    void serve() {
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            Launch* launch = choose();
            if (!launch) {
                work.wait(lock);
                continue;
            }
            ++launch->helpers_working;
            lock.unlock();
            Worker::current_thread().work(*launch);
            lock.lock();
            if (--launch->helpers_working == 0) done.notify_all();
        }
    }
};

// Never destroyed: its threads wait on it until the process ends. A forked child has none of them and starts anew.
Helpers* helpers = [] {
    pthread_atfork(nullptr, nullptr, [] { helpers = new Helpers; });
    return new Helpers;
}();

void start_thread(Helpers* owner) {
    // Signals are for Python's main thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([owner] { owner->serve(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void ask_for_help(Launch& launch) {
    std::lock_guard<std::mutex> lock(helpers->mutex);
    try {
        for (; helpers->threads < launch.helpers_wanted; ++helpers->threads) start_thread(helpers);
    } catch (const std::system_error&) {
        // The system gives no more threads: those there are will do.
    }
    helpers->launches.push_back(&launch);
    helpers->work.notify_all();
}

// Returns when no helper works on the launch any more.
void end_help(Launch& launch) {
    std::unique_lock<std::mutex> lock(helpers->mutex);
    auto& launches = helpers->launches;
    launches.erase(std::find(launches.begin(), launches.end(), &launch));
    helpers->done.wait(lock, [&] { return launch.helpers_working == 0; });
}

}  // namespace kernels
