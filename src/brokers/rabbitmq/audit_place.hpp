#pragma once
// An exchange of the auditor's own, with two queues. One queue keeps everything for the end; the other is
// read at once.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_rabbitmq_place(const PlaceRequest& request);

}  // namespace baton::brokers
