#include "support/jars.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "support/broker.hpp"

namespace fs = std::filesystem;

namespace baton::test {

namespace {

fs::path cache_folder() {
    if (const char* given = std::getenv("XDG_CACHE_HOME"); given != nullptr && *given != '\0')
        return fs::path(given) / "baton";
    const char* home = std::getenv("HOME");
    return (home != nullptr ? fs::path(home) / ".cache" : fs::temp_directory_path()) / "baton";
}

// Held by the one test binary that fetches while others wait for it.
class FileLock {
  public:
    explicit FileLock(const fs::path& path) : fd_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
        if (fd_ < 0 || ::flock(fd_, LOCK_EX) != 0) throw Error("cannot lock " + path.string());
    }
    ~FileLock() { ::close(fd_); }
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

  private:
    int fd_;
};

void write_pom(const fs::path& path, const std::vector<std::string>& coordinates) {
    std::ofstream pom(path);
    pom << "<project><modelVersion>4.0.0</modelVersion><groupId>baton</groupId><artifactId>jars</artifactId>"
           "<version>1</version><dependencies>";
    for (const auto& coordinate : coordinates) {
        std::istringstream words(coordinate);
        std::string group;
        std::string artifact;
        std::string version;
        std::getline(words, group, ':');
        std::getline(words, artifact, ':');
        std::getline(words, version, ':');
        pom << "<dependency><groupId>" << group << "</groupId><artifactId>" << artifact
            << "</artifactId><version>" << version << "</version></dependency>";
    }
    pom << "</dependencies></project>\n";
}

}  // namespace

fs::path fetch_jars(const std::string& name, const std::vector<std::string>& coordinates) {
    const fs::path cache = cache_folder();
    const fs::path jars = cache / name;
    fs::create_directories(cache);
    const FileLock lock(cache / (name + ".lock"));
    if (fs::exists(jars)) return jars;

    const fs::path fetched = cache / (name + ".part");
    fs::remove_all(fetched);
    fs::create_directories(fetched);
    write_pom(cache / (name + ".pom"), coordinates);
    std::cerr << "fetching " << name << " with Maven, once" << std::endl;
    Command maven;
    maven.argv = {"mvn",
                  "-B",
                  "-q",
                  "-f",
                  (cache / (name + ".pom")).string(),
                  "dependency:copy-dependencies",
                  "-DincludeScope=runtime",
                  "-DoutputDirectory=" + fetched.string()};
    try {
        const auto outcome = run(maven);
        if (outcome.exit_code != 0)
            throw Unavailable(name +
                              " could not be fetched from Maven Central: " + outcome.output.substr(0, 2000));
    } catch (const Unavailable&) {
        throw;
    } catch (const Error& error) {
        throw Unavailable(name + " could not be fetched, Maven is missing: " + error.what());
    }
    if (fs::is_empty(fetched)) throw Unavailable(name + " could not be fetched: Maven brought no jars");
    fs::rename(fetched, jars);
    return jars;
}

}  // namespace baton::test
