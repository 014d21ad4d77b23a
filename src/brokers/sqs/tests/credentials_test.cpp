// Where keys for AWS come from. AWS itself is not to be had in a test: a server by script answers as its
// documentation says, and writes down what it was asked.

#include "brokers/sqs/credentials.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "baton/error.hpp"
#include "brokers/sqs/sink.hpp"
#include "support/folder.hpp"

namespace baton::brokers {

namespace {

using namespace std::chrono_literals;
using Clock = AwsCredentials::Clock;

std::string expiry(Clock::time_point time) {
    const std::time_t seconds = Clock::to_time_t(time);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&seconds));
    return text;
}

class Keys : public testing::Test {
  protected:
    Keys() {
        port = server.bind_to_any_port("127.0.0.1");
        listening = std::thread([this] { server.listen_after_bind(); });
        while (!server.is_running()) std::this_thread::sleep_for(1ms);
        variables["HOME"] = folder.path();
    }
    ~Keys() override {
        server.stop();
        listening.join();
    }

    std::string url(const std::string& path = {}) const {
        return "http://127.0.0.1:" + std::to_string(port) + path;
    }
    std::string write(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories((folder / name).parent_path());
        std::ofstream(folder / name) << text;
        return folder / name;
    }
    std::unique_ptr<AwsCredentials> find(const std::map<std::string, std::string>& given = {}) {
        relay::Settings settings("sink");
        for (const auto& [key, value] : given) settings.set(key, value);
        return std::make_unique<AwsCredentials>(settings, "eu-west-1", [this](const std::string& name) {
            const auto found = variables.find(name);
            return found == variables.end() ? std::string() : found->second;
        });
    }
    static std::string temporary(const std::string& name, Clock::time_point end) {
        return R"({"Code":"Success","AccessKeyId":")" + name + R"(","SecretAccessKey":"s+/=","Token":"t-)" +
               name + R"(","Expiration":")" + expiry(end) + "\"}";
    }

    test::Folder folder;
    std::map<std::string, std::string> variables;
    httplib::Server server;
    int port = 0;
    std::thread listening;
};

TEST_F(Keys, of_the_settings_come_before_all_others) {
    variables["AWS_ACCESS_KEY_ID"] = "env";
    variables["AWS_SECRET_ACCESS_KEY"] = "s";
    const auto keys = find({{"access_key", "set"}, {"secret_key", "s"}})->keys();
    EXPECT_EQ(keys->access_key, "set");
    EXPECT_EQ(keys->session_token, "");
    EXPECT_THROW(find({{"access_key", "half"}}), relay::SettingsError);
    EXPECT_THROW(find({{"profile", "nobody"}}), relay::SettingsError);
}

TEST_F(Keys, of_the_environment_come_with_their_token) {
    variables["AWS_ACCESS_KEY_ID"] = "env";
    variables["AWS_SECRET_ACCESS_KEY"] = "s";
    variables["AWS_SESSION_TOKEN"] = "t";
    const auto keys = find()->keys();
    EXPECT_EQ(keys->access_key, "env");
    EXPECT_EQ(keys->session_token, "t");
}

TEST_F(Keys, of_a_profile_are_in_either_file) {
    write(".aws/credentials", "# mine\n[default]\naws_access_key_id = one \naws_secret_access_key=a=b\n");
    write(".aws/config",
          "[default]\nregion = x\n[profile two]\naws_access_key_id=two\naws_secret_access_key=s\n"
          "aws_session_token=t\n[profile bare]\nregion=y\n");
    auto credentials = find();
    EXPECT_EQ(credentials->keys()->access_key, "one");
    EXPECT_EQ(credentials->keys()->secret_key, "a=b");
    EXPECT_EQ(find({{"profile", "two"}})->keys()->session_token, "t");
    variables["AWS_PROFILE"] = "two";
    EXPECT_EQ(find()->keys()->access_key, "two");
    variables["AWS_PROFILE"] = "bare";
    EXPECT_THROW(find(), relay::SettingsError);
}

// A remark behind the name of a section does not make its keys those of the section before.
TEST_F(Keys, of_a_profile_are_in_its_own_section_also_with_remarks_and_quotes) {
    write(".aws/credentials",
          "[default]\nregion = x\n[prod] # the real one\naws_access_key_id = prod ; old\n"
          "aws_secret_access_key = p#;s\n[broken\naws_access_key_id = no\naws_secret_access_key = no\n");
    write(".aws/config",
          "[profile  wide]\nAWS_Access_Key_ID=wide\naws_secret_access_key=s\n"
          "[ profile \"far away\" ] ; quoted\naws_access_key_id=far\naws_secret_access_key=s\n");
    variables["AWS_EC2_METADATA_DISABLED"] = "true";
    EXPECT_THROW(find(), relay::SettingsError) << "default has no keys";
    EXPECT_EQ(find({{"profile", "prod"}})->keys()->access_key, "prod");
    EXPECT_EQ(find({{"profile", "prod"}})->keys()->secret_key, "p#;s");
    EXPECT_EQ(find({{"profile", "wide"}})->keys()->access_key, "wide");
    EXPECT_EQ(find({{"profile", "far away"}})->keys()->access_key, "far");
}

TEST_F(Keys, of_a_web_identity_are_exchanged_and_its_token_is_read_each_time) {
    std::vector<std::string> tokens;
    server.Post("/", [&](const httplib::Request& request, httplib::Response& response) {
        EXPECT_EQ(request.get_param_value("Action"), "AssumeRoleWithWebIdentity");
        EXPECT_EQ(request.get_param_value("RoleArn"), "arn:aws:iam::1:role/r&d");
        tokens.push_back(request.get_param_value("WebIdentityToken"));
        response.set_content(
            "<R><Credentials><AccessKeyId>sts" + std::to_string(tokens.size()) +
                "</AccessKeyId><SecretAccessKey>s+/=</SecretAccessKey><SessionToken>t</SessionToken>"
                "<Expiration>" +
                expiry(Clock::now() + 1h) + "</Expiration></Credentials></R>",
            "text/xml");
    });
    variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = write("token", "first\n");
    variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r&d";
    variables["AWS_ENDPOINT_URL_STS"] = url("/");
    const auto credentials = find();
    EXPECT_EQ(credentials->keys()->access_key, "sts1");
    EXPECT_EQ(credentials->keys()->secret_key, "s+/=");
    write("token", "second\n");
    EXPECT_EQ(credentials->keys(Clock::now() + 56min)->access_key, "sts2") << "renewed before they expire";
    EXPECT_EQ(tokens, (std::vector<std::string>{"first", "second"}));
}

TEST_F(Keys, of_a_container_need_its_token_and_no_foreign_host) {
    server.Get("/role", [&](const httplib::Request& request, httplib::Response& response) {
        if (request.get_header_value("Authorization") != "open") return void(response.status = 403);
        response.set_content(temporary("task", Clock::now() + 6h), "application/json");
    });
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url("/role");
    EXPECT_THROW(find()->keys(), ConnectionError);
    variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = write("agent", "open\n");
    EXPECT_EQ(find()->keys()->session_token, "t-task");
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://keys.example/role";
    EXPECT_THROW(find(), UsageError);
}

TEST_F(Keys, of_an_instance_are_asked_for_with_a_token) {
    server.Put("/latest/api/token", [](const httplib::Request& request, httplib::Response& response) {
        if (!request.has_header("X-aws-ec2-metadata-token-ttl-seconds")) return void(response.status = 400);
        response.set_content("imds", "text/plain");
    });
    server.Get("/latest/meta-data/iam/security-credentials/(.*)", [](const httplib::Request& request,
                                                                     httplib::Response& response) {
        if (request.get_header_value("X-aws-ec2-metadata-token") != "imds")
            return void(response.status = 401);
        response.set_content(
            request.matches[1].length() == 0 ? "relay-role\n" : temporary("ec2", Clock::now() + 6h),
            "text/plain");
    });
    variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = url("/");
    EXPECT_EQ(find()->keys()->access_key, "ec2");
    variables["AWS_EC2_METADATA_DISABLED"] = "TRUE";
    EXPECT_THROW(find(), relay::SettingsError);
}

TEST_F(Keys, that_still_hold_are_used_while_a_renewal_fails_and_no_longer) {
    std::atomic<bool> down{false};
    std::atomic<int> asked{0};
    const auto now = Clock::now();
    server.Get("/role", [&](const httplib::Request&, httplib::Response& response) {
        ++asked;
        if (down) return void(response.status = 500);
        response.set_content(temporary("task" + std::to_string(asked), now + 1h), "application/json");
    });
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url("/role");
    const auto credentials = find();
    EXPECT_EQ(credentials->keys(now)->access_key, "task1");
    EXPECT_EQ(credentials->keys(now + 54min)->access_key, "task1");
    EXPECT_EQ(asked, 1);
    down = true;
    EXPECT_EQ(credentials->keys(now + 56min)->access_key, "task1");
    EXPECT_EQ(credentials->keys(now + 56min)->access_key, "task1");
    EXPECT_EQ(asked, 2) << "one question, then a pause";
    EXPECT_THROW(credentials->keys(now + 61min), ConnectionError);
    try {
        credentials->keys(now + 61min);
        ADD_FAILURE();
    } catch (const ConnectionError& error) {
        EXPECT_EQ(std::string(error.what()), "no keys for AWS from the container's agent: HTTP 500");
    }
    EXPECT_EQ(asked, 3);
    down = false;
    EXPECT_EQ(credentials->keys(now + 62min)->access_key, "task4");
}

// A service that answers with what it was asked, or gives keys with a status that is none of success.
TEST_F(Keys, and_tokens_are_in_no_message_about_a_bad_answer) {
    server.Get("/echo", [](const httplib::Request& request, httplib::Response& response) {
        response.status = 403;
        response.set_content("bad token <" + request.get_header_value("Authorization") + ">", "text/plain");
    });
    server.Get("/odd", [](const httplib::Request&, httplib::Response& response) {
        response.status = 203;
        response.set_content(temporary("task", Clock::now() + 1h), "application/json");
    });
    server.Post("/", [](const httplib::Request& request, httplib::Response& response) {
        response.status = 400;
        response.set_content("<Message>what is " + request.body + "</Message>", "text/xml");
    });
    const auto words = [&] {
        try {
            find()->keys();
        } catch (const ConnectionError& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url("/echo");
    variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "opens/all=";
    EXPECT_EQ(words(), "no keys for AWS from the container's agent: HTTP 403: bad token <***>");
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url("/odd");
    EXPECT_EQ(words(), "no keys for AWS from the container's agent: HTTP 203");
    variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = write("token", "ey/J.a+b\n");
    variables["AWS_ROLE_ARN"] = "r";
    variables["AWS_ENDPOINT_URL_STS"] = url("/");
    const std::string told = words();
    EXPECT_NE(told.find("HTTP 400: <Message>what is "), std::string::npos) << told;
    EXPECT_NE(told.find("WebIdentityToken=***"), std::string::npos) << told;
}

TEST_F(Keys, that_cannot_be_had_let_messages_wait_and_cost_them_nothing) {
    std::atomic<bool> down{true};
    server.Get("/role", [&](const httplib::Request&, httplib::Response& response) {
        if (down) return void(response.status = 500);
        response.set_content(temporary("task", Clock::now() + 6h), "application/json");
    });
    std::string token;
    server.Post("/", [&](const httplib::Request& request, httplib::Response& response) {
        token = request.get_header_value("x-amz-security-token");
        response.set_content(R"({"Successful":[{"Id":"0"}]})", "application/json");
    });
    const test::Folder home;
    ::setenv("HOME", home.path().c_str(), 1);
    ::setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url("/role").c_str(), 1);
    relay::Settings settings("sink");
    settings.set("queue", url("/1/q"));
    settings.set("region", "eu-west-1");
    const auto sink = make_sqs_sink(settings);
    const Event event;
    const auto send = [&] {
        Message message;
        message.ticket = 5;
        message.event = &event;
        message.body = "{}";
        sink->send({&message, 1});
        std::vector<relay::Delivery> deliveries;
        sink->collect(deliveries, 10s);
        return deliveries.at(0);
    };
    const auto refused = send();
    EXPECT_EQ(refused.verdict, relay::Verdict::retry);
    EXPECT_EQ(refused.error, "no keys for AWS from the container's agent: HTTP 500");
    down = false;
    auto last = refused;
    for (const auto end = Clock::now() + 60s;
         last.verdict != relay::Verdict::delivered && Clock::now() < end;)
        last = send();
    EXPECT_EQ(last.verdict, relay::Verdict::delivered) << last.error;
    EXPECT_EQ(token, "t-task") << "the request has the token of the keys that sign it";
    ::unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

TEST_F(Keys, that_are_refused_are_asked_for_again) {
    std::atomic<int> asked{0};
    const auto now = Clock::now();
    server.Get("/role", [&](const httplib::Request&, httplib::Response& response) {
        response.set_content(temporary("task" + std::to_string(++asked), now + 6h), "application/json");
    });
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url("/role");
    const auto credentials = find();
    EXPECT_EQ(credentials->keys()->access_key, "task1");
    credentials->refused();
    EXPECT_EQ(credentials->keys(Clock::now() + 1min)->access_key, "task2");
}

}  // namespace

}  // namespace baton::brokers
