#include "support/certificate.hpp"

#include "base/process.hpp"
#include "baton/error.hpp"

namespace baton::test {

Certificate make_certificate(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    Certificate made{folder / "cert.pem", folder / "key.pem"};
    Command openssl;
    openssl.argv = {"openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:prime256v1",
                    "-nodes",
                    "-days",
                    "2",
                    "-subj",
                    "/CN=localhost",
                    "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout",
                    made.key.string(),
                    "-out",
                    made.cert.string()};
    const auto outcome = run(openssl);
    if (outcome.exit_code != 0) throw Error("openssl made no certificate: " + outcome.output);
    std::filesystem::permissions(made.key, std::filesystem::perms::owner_read |
                                               std::filesystem::perms::group_read |
                                               std::filesystem::perms::others_read);
    return made;
}

}  // namespace baton::test
