    UPDATE t
    SET /*{sets}*/
    /*{from}*/
    /*{where}*/OPTION (MAXDOP 1, KEEPFIXED PLAN);
