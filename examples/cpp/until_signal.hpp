#pragma once
// Runs a worker until SIGTERM or SIGINT, then lets it finish what it has begun.

#include <unistd.h>
#include <baton/worker.hpp>

#include <csignal>
#include <iostream>
#include <thread>

inline int run_until_signal(baton::Worker& worker) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // for all threads: sigwait below takes them

    int exit_code = 0;
    std::jthread thread([&](const std::stop_token& stop) {
        try {
            worker.run(stop);
        } catch (const baton::Error& error) {
            std::cerr << error.what() << "\n" << error.hint() << "\n";
            exit_code = 1;
            ::kill(::getpid(), SIGTERM);
        }
    });
    int signal = 0;
    sigwait(&signals, &signal);
    thread.request_stop();
    thread.join();
    return exit_code;
}

// Says what went wrong, for the log.
inline void log_incident(const baton::Incident& incident) {
    std::cerr << (incident.delivery != nullptr ? incident.delivery->id.str() : "worker") << ": "
              << incident.what << "\n";
}
