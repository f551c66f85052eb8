    DELETE t
    /*{from}*/
    /*{where}*/OPTION (MAXDOP 1, KEEPFIXED PLAN);
