// The table in src/README.md says which room may use which: every #include in src/ agrees with it.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace {

namespace fs = std::filesystem;
using Rooms = std::set<std::string>;

const fs::path source_folder = BATON_SOURCES;

std::string read(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> all_matches(const std::string& text, const std::regex& pattern) {
    std::vector<std::string> found;
    for (std::sregex_iterator each(text.begin(), text.end(), pattern), end; each != end; ++each)
        found.push_back((*each)[1]);
    return found;
}

// The table: for each room those that it may use.
std::map<std::string, Rooms> read_table() {
    std::map<std::string, Rooms> table;
    std::ifstream in(source_folder / "README.md");
    const std::regex line_form("\\| `([^`]+)` \\|[^|]*\\|(.*)\\|");
    std::smatch parts;
    for (std::string line; std::getline(in, line);) {
        if (!std::regex_match(line, parts, line_form)) continue;
        const auto used = all_matches(parts[2], std::regex("`([^`]+)`"));
        table[parts[1]] = Rooms(used.begin(), used.end());
    }
    return table;
}

// The room of a path below src/: its first folder, or for what is in a broker's own folder "brokers/*".
std::string room_of(const fs::path& path) {
    const std::string first = path.begin()->string();
    const auto depth = std::distance(path.begin(), path.end());
    return first == "brokers" && depth > 2 ? "brokers/*" : first;
}

std::vector<fs::path> source_files() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(source_folder))
        if ((entry.path().extension() == ".cpp" || entry.path().extension() == ".hpp") &&
            entry.path().parent_path().filename() != "tests")
            files.push_back(fs::relative(entry.path(), source_folder));
    return files;
}

// The files of src/ that a file includes; those of include/ are for everybody.
std::vector<fs::path> includes_of(const fs::path& file) {
    std::vector<fs::path> included;
    for (const auto& name :
         all_matches(read(source_folder / file), std::regex("(?:^|\\n)#include \"([^\"]+)\"")))
        if (fs::exists(source_folder / name)) included.emplace_back(name);
    return included;
}

TEST(Arrows, every_room_uses_only_those_that_the_table_names) {
    const auto table = read_table();
    ASSERT_GT(table.size(), 10U) << "the table in src/README.md was not understood";
    for (const auto& file : source_files()) {
        const std::string room = room_of(file);
        ASSERT_TRUE(table.contains(room)) << room << " is not in the table of src/README.md";
        for (const auto& included : includes_of(file)) {
            const std::string other = room_of(included);
            EXPECT_TRUE(other == room || table.at(room).contains(other))
                << file << " includes " << included << ", but `" << room << "` may not use `" << other << "`";
        }
    }
}

TEST(Arrows, the_table_has_no_circle) {
    auto table = read_table();
    table["brokers/*"].erase("brokers");  // the entry's type, which uses no broker
    bool removed = true;
    while (removed) {
        removed = false;
        for (auto room = table.begin(); room != table.end();) {
            const bool lowest = std::none_of(room->second.begin(), room->second.end(),
                                             [&](const auto& used) { return table.contains(used); });
            removed = removed || lowest;
            room = lowest ? table.erase(room) : std::next(room);
        }
    }
    EXPECT_TRUE(table.empty()) << "there is a circle through " << table.begin()->first;
}

TEST(Arrows, no_broker_uses_another_ones_folder) {
    for (const auto& file : source_files()) {
        if (room_of(file) != "brokers/*") continue;
        for (const auto& included : includes_of(file)) {
            if (room_of(included) != "brokers/*") continue;
            EXPECT_EQ(*std::next(file.begin()), *std::next(included.begin()))
                << file << " includes " << included;
        }
    }
}

TEST(Arrows, nothing_outside_of_brokers_writes_a_brokers_name) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(source_folder / "brokers"))
        if (entry.is_directory()) names.insert(entry.path().filename());
    for (const auto* word : {"file", "http", "null", "postgres", "stdout"})
        names.erase(word);  // words that mean other things, too
    ASSERT_GE(names.size(), 5U);
    for (const auto& file : source_files()) {
        if (file.begin()->string() == "brokers") continue;
        for (const auto& text : all_matches(read(source_folder / file), std::regex("\"([a-z0-9]+)\"")))
            EXPECT_FALSE(names.contains(text)) << file << " names " << text;
    }
}

// Packages come from wherever the reader's npm is told to look; their digests say that they are the same.
TEST(LockFiles, name_digests_and_no_addresses) {
    const fs::path root = source_folder.parent_path();
    for (const auto* file : {"dashboard/package-lock.json", "tests/browser/package-lock.json"}) {
        const std::string text = read(root / file);
        EXPECT_NE(text.find("\"integrity\""), std::string::npos) << file;
        EXPECT_EQ(text.find("\"resolved\""), std::string::npos) << file;
    }
}

}  // namespace
