"""The routers of all pages."""

from evaluation_pipelines.service.pages import (
    agents,
    attention,
    books,
    judge,
    login,
    models,
    operations,
    overview,
    reviews,
    session,
    session_list,
    static_files,
    tools,
    trends,
)

PAGE_ROUTERS = (
    static_files.ROUTER,
    login.ROUTER,
    overview.ROUTER,
    session_list.ROUTER,
    session.ROUTER,
    models.ROUTER,
    agents.ROUTER,
    trends.ROUTER,
    tools.ROUTER,
    reviews.ROUTER,
    operations.ROUTER,
    books.ROUTER,
    judge.ROUTER,
    attention.ROUTER,
)
