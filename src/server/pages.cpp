#include "server/pages.hpp"

#include <zlib.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/text.hpp"

namespace baton::server {

namespace {

constexpr const char* content_security_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void say(httplib::Response& response, int status, const std::string& words) {
    response.status = status;
    response.set_content(words + "\n", "text/plain; charset=utf-8");
}

std::string inflated(std::string_view gzip) {
    z_stream stream{};
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::runtime_error("cannot unpack");
    std::string input(gzip);
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    std::string text;
    int result = Z_OK;
    while (result == Z_OK) {
        const std::size_t before = text.size();
        text.resize(before + 65536);
        stream.next_out = reinterpret_cast<Bytef*>(text.data() + before);
        stream.avail_out = 65536;
        result = inflate(&stream, Z_NO_FLUSH);
        text.resize(text.size() - stream.avail_out);
    }
    inflateEnd(&stream);
    if (result != Z_STREAM_END) throw std::runtime_error("cannot unpack");
    return text;
}

// True when a list like "gzip, br;q=0.5" has the word, and not with q=0.
bool accepts(const std::string& list, std::string_view word) {
    for (std::size_t at = 0; at < list.size();) {
        const auto end = std::min(list.find(',', at), list.size());
        std::string one = lower(list.substr(at, end - at));
        std::erase(one, ' ');
        at = end + 1;
        const auto semicolon = one.find(';');
        if (one.substr(0, semicolon) != word) continue;
        const std::string rest = semicolon == std::string::npos ? "" : one.substr(semicolon);
        return !(rest.starts_with(";q=0") && rest.find_first_of("123456789", 4) == std::string::npos);
    }
    return false;
}

const Asset* find(const std::vector<Asset>& assets, std::string_view path) {
    const auto found =
        std::ranges::find_if(assets, [path](const Asset& asset) { return asset.path == path; });
    return found == assets.end() ? nullptr : &*found;
}

// A browser asks for a page as text/html. Its path may have dots, as names have: /outboxes/public.orders.
bool looks_like_a_page(const httplib::Request& request) {
    return !request.path.starts_with("/assets/") &&
           request.get_header_value("Accept").find("text/html") != std::string::npos;
}

void give(const Asset& asset, const httplib::Request& request, httplib::Response& response) {
    const std::string tag(asset.etag.starts_with('"') ? std::string(asset.etag)
                                                      : "\"" + std::string(asset.etag) + "\"");
    response.set_header("ETag", tag);
    response.set_header("Vary", "Accept-Encoding");
    // A file whose name has its digest never changes.
    response.set_header("Cache-Control", asset.path.starts_with("/assets/")
                                             ? "public, max-age=31536000, immutable"
                                             : "no-cache");
    if (request.get_header_value("If-None-Match").find(tag) != std::string::npos) {
        response.status = 304;
        return;
    }
    response.status = 200;
    const bool packed = accepts(request.get_header_value("Accept-Encoding"), "gzip");
    if (packed) response.set_header("Content-Encoding", "gzip");
    auto bytes = std::make_shared<std::string>(packed ? std::string(asset.gzip) : inflated(asset.gzip));
    // A provider, because the library would pack the bytes again.
    response.set_content_provider(bytes->size(), std::string(asset.type),
                                  [bytes](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
                                      return sink.write(bytes->data() + offset, length);
                                  });
}

}  // namespace

void add_safety_headers(httplib::Response& response) {
    response.set_header("Content-Security-Policy", content_security_policy);
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Cross-Origin-Opener-Policy", "same-origin");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
}

void serve_page(const std::vector<Asset>& assets, const httplib::Request& request,
                httplib::Response& response) {
    add_safety_headers(response);
    if (request.method != "GET" && request.method != "HEAD") {
        response.set_header("Allow", "GET, HEAD");
        return say(response, 405, "pages are only read");
    }
    const Asset* asset = find(assets, request.path);
    if (asset == nullptr && (request.path == "/" || looks_like_a_page(request)))
        asset = find(assets, "/index.html");
    if (asset != nullptr) return give(*asset, request, response);
    say(response, 404,
        assets.empty() ? "this program is built without the dashboard; the API is at /api/v1"
                       : "there is nothing here");
}

}  // namespace baton::server
