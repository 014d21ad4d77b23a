// Whose sign of life is gone is dead, and nobody else is.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/life_sign.hpp"

using namespace baton;

namespace {

// A process that shows its sign of life and waits.
class Bearer {
  public:
    Bearer() {
        std::array<int, 2> pipe{};
        if (::pipe(pipe.data()) != 0) throw std::runtime_error("no pipe");
        pid_ = ::fork();
        if (pid_ == 0) {
            const auto own = show_life();
            if (::write(pipe[1], own.data(), own.size()) < 0) ::_exit(1);
            ::close(pipe[1]);
            for (;;) ::pause();
        }
        ::close(pipe[1]);
        std::array<char, 400> text{};
        for (ssize_t got = 0; (got = ::read(pipe[0], text.data(), text.size())) > 0;)
            name.append(text.data(), static_cast<std::size_t>(got));
        ::close(pipe[0]);
    }
    ~Bearer() { end(); }
    Bearer(const Bearer&) = delete;
    Bearer& operator=(const Bearer&) = delete;

    void signal(int number) const { ::kill(pid_, number); }
    void end() {
        if (pid_ <= 0) return;
        signal(SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

    std::string name;

  private:
    pid_t pid_;
};

}  // namespace

TEST(LifeSign, a_process_that_was_killed_is_known_to_be_dead) {
    Bearer bearer;
    EXPECT_FALSE(life_has_ended(bearer.name)) << bearer.name;
    bearer.end();
    EXPECT_TRUE(life_has_ended(bearer.name)) << bearer.name;
    EXPECT_TRUE(life_has_ended(bearer.name + " orders")) << "what follows the name does not matter";
}

TEST(LifeSign, a_process_that_is_stopped_lives) {
    const Bearer bearer;
    bearer.signal(SIGSTOP);
    EXPECT_FALSE(life_has_ended(bearer.name));
}

TEST(LifeSign, names_differ_and_a_process_knows_itself_alive) {
    const auto one = show_life();
    const auto two = show_life();
    EXPECT_NE(one, two);
    EXPECT_FALSE(life_has_ended(one));
    EXPECT_FALSE(life_has_ended(two));
}

TEST(LifeSign, nobody_else_is_taken_for_dead) {
    Bearer bearer;
    bearer.end();
    auto elsewhere = bearer.name;  // another machine, or another start of this one
    elsewhere.back() = elsewhere.back() == '0' ? '1' : '0';
    EXPECT_FALSE(life_has_ended(elsewhere));
    const auto without_place = bearer.name.substr(0, bearer.name.rfind(':'));
    for (const std::string& name : {without_place, std::string("a worker"), std::string(), std::string(":"),
                                    std::string(40, ':'), "x" + bearer.name.substr(bearer.name.size() - 33)})
        EXPECT_FALSE(life_has_ended(name)) << name;
}
