"""Reports: from records to a table or JSON. Pure; one file for each form."""
