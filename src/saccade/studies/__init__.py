"""The paper's studies: what is measured, drawn and judged, and the page that shows it."""
