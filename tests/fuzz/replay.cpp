// Runs a fuzz target without libFuzzer: every file of a corpus, then mutations of them, always the same ones.
//   fuzz_TARGET --runs N FOLDER|FILE...

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz.hpp"

namespace fs = std::filesystem;

namespace {

using Input = std::string;

Input read(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

// The files in an order that does not depend on the file system.
std::vector<Input> read_corpus(const std::vector<fs::path>& places) {
    std::vector<fs::path> files;
    for (const auto& place : places) {
        if (fs::is_directory(place))
            std::copy(fs::directory_iterator(place), fs::directory_iterator(), std::back_inserter(files));
        else
            files.push_back(place);
    }
    std::sort(files.begin(), files.end());
    std::vector<Input> corpus;
    for (const auto& file : files) corpus.push_back(read(file));
    return corpus;
}

class Mutator {
  public:
    explicit Mutator(const std::vector<Input>& corpus) : corpus_(corpus) {}

    Input make() {
        Input input = corpus_[below(corpus_.size())];
        for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(input);
        return input;
    }

  private:
    std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

    void change(Input& input) {
        static constexpr const char* odd[] = {"",
                                              "\0",
                                              "\xFF",
                                              "\\u0000",
                                              "\"",
                                              "{",
                                              "}",
                                              "[",
                                              "%",
                                              "=",
                                              "-1",
                                              "1e9",
                                              "9223372036854775808",
                                              "\n--\n",
                                              "\\",
                                              "$",
                                              ":",
                                              "\xC3",
                                              "nan"};
        const std::size_t at = below(input.size() + 1);
        switch (below(6)) {
            case 0:  // a byte becomes another
                if (at < input.size()) input[at] = static_cast<char>(below(256));
                break;
            case 1:  // something goes
                input.erase(at, 1 + below(8));
                break;
            case 2:  // something odd comes
                input.insert(at, odd[below(std::size(odd))]);
                break;
            case 3:  // a part comes again
                input.insert(at, input.substr(below(input.size() + 1), 1 + below(16)));
                break;
            case 4: {  // a part of another comes
                const Input& other = corpus_[below(corpus_.size())];
                input.insert(at, other.substr(below(other.size() + 1), 1 + below(64)));
                break;
            }
            default:  // the end is cut off
                input.resize(at);
        }
    }

    const std::vector<Input>& corpus_;
    std::mt19937 random_{20251115};
};

void run(const Input& input) {
    // A copy of its own, so that a sanitizer sees whoever reads beyond the end.
    std::vector<std::uint8_t> bytes(input.begin(), input.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

// What is being tried, for whoever ends the process.
const Input* trying = nullptr;

extern "C" void tell_what_was_tried(int) {
    std::cerr << "with these " << trying->size() << " bytes:\n";
    std::cerr.write(trying->data(), static_cast<std::streamsize>(trying->size())) << "\n";
    std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t runs = 0;
    std::vector<fs::path> places;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = std::strtoul(argv[++i], nullptr, 10);
        else
            places.emplace_back(argv[i]);
    }
    const auto corpus = read_corpus(places);
    if (corpus.empty()) {
        std::cerr << "no corpus\n";
        return 2;
    }
    std::signal(SIGABRT, tell_what_was_tried);
    for (const auto& input : corpus) {
        trying = &input;
        run(input);
    }
    Mutator mutator(corpus);
    for (std::size_t i = 0; i < runs; ++i) {
        const Input input = mutator.make();
        trying = &input;
        run(input);
    }
    std::cout << corpus.size() << " inputs and " << runs << " mutations of them\n";
    return 0;
}
