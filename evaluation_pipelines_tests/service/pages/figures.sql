-- What the pages show, from the analysts' database: views, then a query for each table of a page.
-- The line before a query has the page and the first heading of the table. The numbers of a row
-- follow each other as they do on the page.

create view windows as
    select
        s.session_key, s.session_date, s.started_at, s.source_cli, s.model, s.status, s.prompts,
        s.classification_label,
        s.cost_usd, s.total_tokens, s.total_tools, s.tools_failed, s.active_s,
        e.effective_100, p.composite, p.quality, p.autonomy, p.productivity, p.token_efficiency,
        p.cost_efficiency
    from told.agent_sessions as s
    join told.session_evaluations as e using (organization_id, session_key, session_date)
    join told.session_performance as p using (organization_id, session_key, session_date);

create view calls as
    select session_key, lost.*
    from (select session_key, unnest(by_tool) as lost from told.tool_reports);

--: / | Day
select
    session_date, count(*), count(effective_100),
    count(*) filter (effective_100 >= 75),
    count(*) filter (effective_100 >= 50 and effective_100 < 75),
    count(*) filter (effective_100 < 50),
    0,
    count(*) filter (effective_100 is null),
    avg(effective_100),
    sum(cost_usd)
from windows group by 1 order by 1;

--: / | Days
select sum(cost_usd) filter (session_date between first and last),
    count(*) filter (session_date between first and last),
    count(*) filter (session_date between first and last and cost_usd is null)
from windows, (values
    (1, date '2026-06-04', date '2026-06-04'), (2, date '2026-05-29', date '2026-06-04'),
    (3, date '2026-05-08', date '2026-06-04')
) as ranges(place, first, last) group by place order by place;

--: /sessions?sort=started | Started
select effective_100, cost_usd, tools_failed, total_tools
from windows order by started_at;

--: /models | Model
select
    model, rank, runs, avg_score, 100 * pass_rate, avg_cost_usd, score_per_dollar
from told.model_comparison order by avg_score desc, model;

--: /agents?sort=agent | Agent
select agent_id, eval_count, 50, 100 * pass_rate from told.agent_scores order by 1;

--: /agents/agent-1 | Model
select of_model.model, of_model.evaluations, 100 * of_model.pass_rate
from (select unnest(by_model) as of_model from told.agent_scores where agent_id = 'agent-1')
order by 1;

--: /trends?by=model | Day
select
    session_date, model, count(*), avg(effective_100), count(effective_100), avg(cost_usd),
    avg(total_tokens), 100 * sum(tools_failed) / sum(total_tools),
    count(*) filter (status = 'failed')
from windows group by 1, 2 order by 1 desc, 2 desc;

--: /trends?step=week | Week
select
    date_trunc('week', session_date), count(*), avg(effective_100), count(effective_100),
    avg(cost_usd), avg(total_tokens), 100 * sum(tools_failed) / sum(total_tools),
    count(*) filter (status = 'failed')
from windows group by 1;

--: /trends?step=all&by=label | Label
select
    classification_label, max(session_date), count(*), avg(effective_100), count(effective_100),
    avg(cost_usd), avg(total_tokens), 100 * sum(tools_failed) / sum(total_tools),
    count(*) filter (status = 'failed')
from windows group by 1 order by 4;

--: /tools | Tool
select
    tool, sum(calls), sum(failed), 100 * sum(failed) / sum(calls), sum(lost_calls),
    100 * sum(lost_calls) / sum(calls), sum(lost_usd)
from calls group by 1 order by sum(lost_calls) desc, 1;

--: /tools | Model
select
    model, sum(total_calls), sum(failed_calls), 100 * sum(failed_calls) / sum(total_calls),
    sum(lost_calls), 100 * sum(lost_calls) / sum(total_calls), sum(lost_usd)
from told.tool_reports group by 1 order by sum(lost_calls) desc, 1;

--: /operations/books/2026-06-01 | State
select state, count(*) from told.evaluation_books where session_date = '2026-06-01' group by 1;

--: /operations/books/2026-06-01?state=scored | Session
select session_key, effective_100
from told.evaluation_books where session_date = '2026-06-01' and state = 'scored' order by 1;

--: /sessions/s5%23baseline-1/technical | Tool
select tool, calls, failed, repeated, corrected, wasted, lost_calls
from calls where session_key = 's5#baseline-1' order by lost_calls desc, tool;

--: /sessions/s5%23baseline-1/score | Profile
select profile_id, overall_score, confidence
from told.scorecards where session_key = 's5#baseline-1' order by 1;

--: facts
select
    quality, autonomy, productivity, token_efficiency as "token efficiency",
    cost_efficiency as "cost efficiency", composite, prompts as "Prompts", cost_usd as "Cost",
    total_tokens / 1000 as "Tokens", total_tools as "Tool calls", active_s as "Active"
from windows where session_key = 's5#baseline-1';
