-- The tables of the example: an inbox for what comes, accounts that change, an outbox for what goes.

create table accounts (id text primary key, balance bigint not null check (balance >= 0));
create table transfers (request text primary key, account text not null references accounts, amount bigint not null);

select baton.create_inbox('payment_requests', max_retries => 10);
select baton.create_outbox('payment_answers');
