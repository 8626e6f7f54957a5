"""From metrics and histories to tables, figures and the page that holds them."""
