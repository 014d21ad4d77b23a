#include "server/open_api.hpp"

#include <algorithm>

#include "server/endpoints.hpp"

namespace baton::server {

using operations::Answer;
using operations::Json;
using operations::Kind;
using operations::Operation;
using operations::Parameter;
using operations::Right;

namespace {

// A value that comes in.
Json schema_of(const Parameter& parameter) {
    Json schema = Json::object();
    switch (parameter.kind) {
        case Kind::text:
        case Kind::time:
            schema["type"] = "string";
            break;
        case Kind::integer:
            schema = {{"type", "integer"}, {"format", "int64"}};
            break;
        case Kind::number:
            schema["type"] = "number";
            break;
        case Kind::boolean:
            schema["type"] = "boolean";
            break;
        case Kind::texts:
            schema = {{"type", "array"}, {"items", {{"type", "string"}}}};
            break;
        case Kind::json:
            break;
    }
    if (!parameter.choices.empty()) schema["enum"] = parameter.choices;
    if (!parameter.fallback.is_null()) schema["default"] = parameter.fallback;
    return schema;
}

// A value that goes out; null: there is none.
Json schema_of(const operations::Field& field) {
    Json schema{{"description", field.about}};
    switch (field.kind) {
        case Kind::text:
            schema["type"] = Json::array({"string", "null"});
            break;
        case Kind::time:
            schema["type"] = Json::array({"string", "null"});
            schema["format"] = "date-time";
            break;
        case Kind::integer:
            schema["type"] = Json::array({"integer", "null"});
            break;
        case Kind::number:
            schema["type"] = Json::array({"number", "null"});
            break;
        case Kind::boolean:
            schema["type"] = Json::array({"boolean", "null"});
            break;
        case Kind::texts:
            schema["type"] = Json::array({"array", "null"});
            schema["items"] = {{"type", "string"}};
            break;
        case Kind::json:
            break;
    }
    return schema;
}

Json answer_of(const Endpoint& endpoint) {
    if (!endpoint.schema.is_null()) return endpoint.schema;
    Json properties = Json::object();
    Json names = Json::array();
    for (const auto& field : endpoint.operation.shape) {
        properties[field.name] = schema_of(field);
        names.push_back(field.name);
    }
    Json one{{"type", "object"}, {"properties", properties}, {"required", names}};
    if (endpoint.operation.answer == Answer::one) return one;
    Json all{{"type", "object"},
             {"properties", {{"items", {{"type", "array"}, {"items", one}}}}},
             {"required", {"items"}}};
    if (endpoint.operation.answer == Answer::page) {
        all["properties"]["next"] = {{"type", Json::array({"string", "null"})},
                                     {"description", "`after` of the next page; null: this is the last"}};
        all["required"].push_back("next");
    }
    return all;
}

bool in_path(const Operation& operation, const Parameter& parameter) {
    return operation.path.find("{" + parameter.name + "}") != std::string::npos;
}

Json parameters_of_url(const Operation& operation) {
    Json all = Json::array();
    for (const auto& parameter : operations::parameters_of(operation)) {
        const bool path = in_path(operation, parameter);
        if (!path && operation.method != "GET") continue;
        Json schema = schema_of(parameter);
        if (path) schema["minLength"] = 1;
        if (parameter.name == "limit") schema["minimum"] = 1;
        if (parameter.name == "limit") schema["maximum"] = operation.name == "render_pipeline" ? 100 : 1000;
        all.push_back({{"name", parameter.name},
                       {"in", path ? "path" : "query"},
                       {"required", path || parameter.required},
                       {"description", parameter.about},
                       {"schema", schema}});
    }
    return all;
}

Json body_of(const Operation& operation) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const auto& parameter : operations::parameters_of(operation)) {
        if (in_path(operation, parameter)) continue;
        Json schema = schema_of(parameter);
        schema["description"] = parameter.about;
        if (!parameter.required && schema.contains("type"))
            schema["type"] = Json::array({schema["type"], "null"});
        if (!parameter.required && schema.contains("enum")) schema["enum"].push_back(nullptr);
        properties[parameter.name] = std::move(schema);
        if (parameter.required) required.push_back(parameter.name);
    }
    if (properties.empty()) return nullptr;
    Json schema{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
    if (!required.empty()) schema["required"] = required;
    return {{"required", !required.empty()}, {"content", {{"application/json", {{"schema", schema}}}}}};
}

Json refusal(const char* about) {
    return {{"description", about},
            {"content",
             {{"application/problem+json", {{"schema", {{"$ref", "#/components/schemas/Problem"}}}}}}}};
}

Json responses_of(const Endpoint& endpoint) {
    const auto& operation = endpoint.operation;
    Json all{{"200",
              {{"description", "done"}, {"content", {{endpoint.type, {{"schema", answer_of(endpoint)}}}}}}}};
    const bool with_body = operation.method != "GET";
    const bool asks_database =
        !operation.sql.empty() || operation.work || operation.name == "render_pipeline";
    const auto add = [&all](const char* status, const char* name) {
        all[status] = {{"$ref", std::string("#/components/responses/") + name}};
    };
    add("400", "Arguments");
    if (!endpoint.for_everybody || operation.name == "open_session") add("401", "NoToken");
    add("403", "NotAllowed");
    if (asks_database || operation.name == "show_example") add("404", "NotThere");
    if (asks_database) add("409", "Refused");
    if (with_body) add("413", "TooLarge");
    if (with_body) add("415", "NoJson");
    add("429", "TooManyAttempts");
    add("503", "Busy");
    return all;
}

Json operation_of(const Endpoint& endpoint) {
    const auto& operation = endpoint.operation;
    Json described{{"operationId", operation.name}, {"summary", operation.about}};
    const auto slash = operation.path.find('/', 1);
    described["tags"] =
        Json::array({operation.path.substr(1, slash == std::string::npos ? slash : slash - 1)});
    if (const Json parameters = parameters_of_url(operation); !parameters.empty())
        described["parameters"] = parameters;
    if (operation.method != "GET")
        if (const Json body = body_of(operation); !body.is_null()) described["requestBody"] = body;
    described["responses"] = responses_of(endpoint);
    if (operation.right == Right::operate)
        described["security"] =
            Json::array({{{"token", Json::array()}}, {{"session", Json::array()}, {"csrf", Json::array()}}});
    else
        described["security"] =
            Json::array({Json::object(), {{"token", Json::array()}}, {{"session", Json::array()}}});
    return described;
}

Json components() {
    const Json problem{{"type", "object"},
                       {"properties",
                        {{"title", {{"type", "string"}, {"description", "what is wrong"}}},
                         {"status", {{"type", "integer"}}},
                         {"hint", {{"type", "string"}, {"description", "what to do; may be empty"}}},
                         {"sqlstate", {{"type", "string"}, {"description", "the database's code"}}},
                         {"problems",
                          {{"type", "array"},
                           {"items", {{"$ref", "#/components/schemas/WrongSetting"}}},
                           {"description", "of a pipeline's settings: everything that is wrong"}}}}},
                       {"required", {"title", "status", "hint"}}};
    return {
        {"schemas", {{"Problem", problem}, {"WrongSetting", wrong_setting_schema()}}},
        {"responses",
         {{"Arguments", refusal("an argument is missing, unknown or cannot be")},
          {"NoToken", refusal("there is no token, or it is not known")},
          {"NotAllowed", refusal("the role is not enough, X-Baton-CSRF is missing, or another site asks")},
          {"NotThere", refusal("there is no such thing")},
          {"Refused", refusal("the database refuses the change")},
          {"TooLarge", refusal("the body has more than 1 MB")},
          {"NoJson", refusal("the body is not application/json")},
          {"TooManyAttempts", refusal("too many wrong tokens came from this address")},
          {"Busy", refusal("the database does not answer, or no connection is free")}}},
        {"securitySchemes",
         {{"token", {{"type", "http"}, {"scheme", "bearer"}}},
          {"session", {{"type", "apiKey"}, {"in", "cookie"}, {"name", "baton_session"}}},
          {"csrf", {{"type", "apiKey"}, {"in", "header"}, {"name", "X-Baton-CSRF"}}}}}};
}

std::string described() {
    Json paths = Json::object();
    for (const auto& endpoint : endpoints()) {
        std::string method = endpoint.operation.method;
        std::ranges::transform(method, method.begin(),
                               [](unsigned char letter) { return std::tolower(letter); });
        paths[endpoint.operation.path][method] = operation_of(endpoint);
    }
    const Json document{
        {"openapi", "3.1.0"},
        {"info",
         {{"title", "baton"},
          {"version", "1"},
          {"summary", "what an operator of baton can ask and do"},
          {"description",
           "Answers are bounded; lists that may be long come in pages. Looking is open on loopback, changing "
           "needs a token of an operator. Every change stands in the audit trail with who made it."},
          {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
        {"servers", Json::array({{{"url", "/api/v1"}}})},
        {"paths", paths},
        {"components", components()}};
    return document.dump(2) + "\n";
}

}  // namespace

const std::string& open_api() {
    static const std::string text = described();
    return text;
}

}  // namespace baton::server
