#include "pg/role.hpp"

namespace baton::pg {

RestrictedRole::RestrictedRole(Oid role) {
    GetUserIdAndSecContext(&before_, &context_before_);
    SetUserIdAndSecContext(role,
                           context_before_ | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
    parameter_level_ = NewGUCNestLevel();
    call([] {
        for (const auto& [name, value] :
             {std::pair{"search_path", "pg_catalog, pg_temp"}, {"quote_all_identifiers", "off"}})
            set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    });
}

RestrictedRole::~RestrictedRole() {
    if (std::uncaught_exceptions() != exceptions_at_start_) return;  // the rollback puts both back
    AtEOXact_GUC(false, parameter_level_);
    SetUserIdAndSecContext(before_, context_before_);
}

}  // namespace baton::pg
