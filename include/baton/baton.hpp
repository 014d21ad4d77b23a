#pragma once
// All of libbaton, except what needs other libraries: baton/json.hpp, baton/otlp.hpp and baton/pqxx.hpp.

#include "baton/codec.hpp"
#include "baton/error.hpp"
#include "baton/event.hpp"
#include "baton/group_consumer.hpp"
#include "baton/handler.hpp"
#include "baton/inbox_worker.hpp"
#include "baton/outbox.hpp"
#include "baton/trace.hpp"
#include "baton/transaction.hpp"
#include "baton/version.hpp"
#include "baton/worker.hpp"
