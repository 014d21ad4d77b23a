#include "cli/server_settings.hpp"

#include "server/status_server.hpp"

namespace baton::cli {

namespace {

server::TokenSource read_token(const relay::Settings& settings) {
    server::TokenSource token{.name = settings.text("name")};
    const std::string role = settings.text("role");
    if (role != "operator" && role != "viewer")
        settings.refuse("role", "is \"" + role + "\"", "write operator or viewer");
    token.right = role == "operator" ? operations::Right::operate : operations::Right::view;
    token.file = settings.text("token_file", "");
    token.variable = settings.text("token_env", "");
    settings.refuse_unknown();
    if (token.file.empty() == token.variable.empty())
        settings.refuse("name", "has not one place of its token", "write token_file or token_env");
    return token;
}

}  // namespace

ServerSettings read_server(const relay::Config& config, const std::string& listen,
                           const std::string& token_file) {
    ServerSettings read;
    read.listen = config.server.text("listen", "");
    if (!listen.empty()) read.listen = listen;
    read.api = config.server.boolean("api", true);
    read.connections = config.server.count("connections", 4, 100);
    if (read.connections < 2) config.server.refuse("connections", "is less than 2", "write 2 or more");
    read.token_file = config.server.text("token_file", "");
    if (!token_file.empty()) read.token_file = token_file;
    config.server.refuse_unknown();
    for (const auto& token : config.tokens) read.tokens.push_back(read_token(token));
    const auto of_environment = server::token_sources_of_environment();
    read.tokens.insert(read.tokens.end(), of_environment.begin(), of_environment.end());
    if (read.listen.empty()) return read;
    read.loopback = server::is_loopback(server::host_of(server::parse_address(read.listen).host));
    if (read.api) server::read_tokens(read.tokens, read.token_file);
    return read;
}

}  // namespace baton::cli
